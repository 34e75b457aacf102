// The form that asks for a token, if the server requires one.

import { token } from "./api.js";
import { field, h, setText } from "./dom.js";

const WRONG = "The server does not accept this token: it was mistyped or revoked, or has expired.";

/** Creates the form; `wrong` is true if the server has refused the last token. */
export function login(wrong, entered) {
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  const problem = h("p", { class: "problem", role: "alert" }, wrong ? WRONG : "");
  const submit = (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text) return;
    // A header cannot contain other characters.
    if (!/^[\x21-\x7e]+$/.test(text)) return setText(problem, WRONG);
    token.set(text);
    entered();
  };
  const node = h("div", { class: "page narrow" },
    h("form", { class: "panel", onsubmit: submit },
      h("h1", {}, "Token"),
      h("p", {}, "This server requires a token. To read, the token needs the scope ", h("code", {}, "read"), "; to make changes, it needs ", h("code", {}, "put"), ", ", h("code", {}, "pop"), " or ", h("code", {}, "manage"), "."),
      problem,
      field("Token", input, "Kept in this tab until it is closed."),
      h("div", { class: "row end" }, h("button", { type: "submit", class: "primary" }, "Continue"))));
  return { title: "Token", node, focus: () => input.focus() };
}
