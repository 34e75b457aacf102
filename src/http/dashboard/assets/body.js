// A job's body or result as text, indented or unchanged. At first, only the beginning of a large text is
// shown. The text is split into blocks, which the browser draws only when they come into view.

import { choice, h, setText } from "./dom.js";
import { count, visible } from "./format.js";
import { pretty } from "./json.js";

/** Number of characters shown at first. */
const INITIAL_CHARACTERS = 16_384;
/** Number of characters shown after "Show all". */
const MAX_CHARACTERS = 4_194_304;
const LINES_PER_BLOCK = 200;

/** Heading, name of the text, and label of its unchanged form. */
const KINDS = {
  body: ["Body", "Body of the job", "As it was put"],
  scheduled: ["Body", "Body of each job", "As it was set"],
  result: ["Result", "Result of the job", "As it was given"],
};

/** Creates the section; `set` takes the text and its kind, or no text to hide the section. */
export function body() {
  let text = "";
  let form = "pretty";
  let limit = INITIAL_CHARACTERS;
  const code = h("pre", { class: "body", tabindex: "0", role: "region", "aria-label": KINDS.body[1] });
  const heading = h("h2", { id: "body" }, KINDS.body[0]);
  const note = h("p", { class: "muted" });
  const all = h("button", { type: "button", onclick: () => { limit = MAX_CHARACTERS; show(); } }, "Show all");
  const forms = choice("Form", [["pretty", "Indented"], ["raw", KINDS.body[2]]], form, (value) => { form = value; limit = INITIAL_CHARACTERS; show(); });
  const node = h("section", { class: "panel", "aria-labelledby": "body" },
    h("div", { class: "row" }, heading, forms), note, code, all);

  function show() {
    const { lines, more } = form === "pretty" ? pretty(text, limit) : { lines: [text.slice(0, limit)], more: text.length > limit };
    const blocks = [];
    for (let at = 0; at < lines.length; at += LINES_PER_BLOCK) {
      blocks.push(h("span", { class: "block" }, visible(lines.slice(at, at + LINES_PER_BLOCK).join("\n"))));
    }
    code.replaceChildren(...blocks);
    all.hidden = !more || limit === MAX_CHARACTERS;
    note.textContent = `${count(text.length)} characters.${more ? ` The first ${count(limit)} are shown.` : ""}`;
  }

  return {
    node,
    set(next, kind) {
      node.hidden = next === undefined;
      if (node.hidden) return;
      const [title, name, unchanged] = KINDS[kind];
      // Unchanged text is not drawn again, which would lose the scroll position and the selection.
      if (next === text && heading.textContent === title) return;
      setText(heading, title);
      code.setAttribute("aria-label", name);
      setText(forms.lastElementChild, unchanged);
      text = next;
      show();
    },
  };
}
