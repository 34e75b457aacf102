// Asks for a token when the server wants one.

import { token } from "./api.js";
import { field, h } from "./dom.js";

/** The form; `wrong` tells that the server has refused the token that it was given. */
export function login(wrong, entered) {
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  const submit = (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text) return;
    token.set(text);
    entered();
  };
  const node = h("div", { class: "page narrow" },
    h("form", { class: "panel", onsubmit: submit },
      h("h1", {}, "Token"),
      h("p", {}, "This server answers only requests with a token. It needs the scope ", h("code", {}, "read"), "; what changes something needs ", h("code", {}, "put"), ", ", h("code", {}, "pop"), " or ", h("code", {}, "manage"), "."),
      h("p", { class: "problem", role: "alert" }, wrong ? "The server does not accept this token: it was mistyped, revoked, or has expired." : ""),
      field("Token", input, "Kept in this tab until it is closed."),
      h("div", { class: "row end" }, h("button", { type: "submit", class: "primary" }, "Go on"))));
  return { title: "Token", node, focus: () => input.focus() };
}
