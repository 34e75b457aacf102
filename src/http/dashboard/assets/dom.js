// Builds elements. Data only becomes text or attributes: nothing here parses HTML.

import { headline, visible } from "./format.js";

/** Creates an element: `on…` properties are listeners, null and false omit an attribute. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Creates an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Sets a text only if it differs: an unchanged node keeps selections and is not announced. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Sets the children of `parent` to one element for each item, in order. Items that stay keep their
 * elements, so focus and scrolling survive a poll.
 */
export function keyed(parent, items, key, create, update) {
  const rows = (parent.rowsByKey ??= new Map());
  const wanted = new Set(items.map(key));
  for (const [name, row] of rows) {
    if (!wanted.has(name)) {
      row.remove();
      rows.delete(name);
    }
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    let row = rows.get(key(item));
    if (!row) rows.set(key(item), (row = create(item)));
    update(row, item);
    if (row === at) at = at.nextElementSibling;
    else parent.insertBefore(row, at);
  }
}

/** Creates a table with these columns and returns its parts. */
export function table(columns, properties = {}) {
  const body = h("tbody");
  const head = h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)));
  return { node: h("table", properties, h("thead", {}, head), body), head, body };
}

/** Maximum number of characters of a folded text on its line, and unfolded. */
const LINE = 300;
const UNFOLDED = 8192;
/** Length of a text that always fits on its line. */
const SHORT = 40;

/** Shows a text on one monospaced line; a longer one unfolds, formatted by `whole`. */
export function folded(text, whole = (beginning) => visible(beginning)) {
  const line = headline(text, LINE);
  if (line.length <= SHORT && line === text) return h("span", { class: "mono" }, line);
  const all = h("pre");
  const fill = () => setText(all, whole(text.slice(0, UNFOLDED)) + (text.length > UNFOLDED ? "…" : ""));
  return h("details", { class: "mono", ontoggle: fill }, h("summary", {}, line), all);
}

let labels = 0;

/** Creates a labelled field with an optional hint. */
export function field(label, control, hint) {
  control.id ||= `field-${(labels += 1)}`;
  const described = hint ? h("small", { id: `${control.id}-hint` }, hint) : null;
  if (described) control.setAttribute("aria-describedby", described.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, described);
}

/** Creates buttons of which one is pressed; `options` are pairs of a value and its label. */
export function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "data-value": value, "aria-pressed": String(value === chosen), onclick: () => set(value, true) }, text));
  const set = (value, told) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    if (told) choose(value);
  };
  const group = h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
  group.set = set;
  return group;
}
