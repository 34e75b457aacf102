// Creates elements. Data only becomes text or attributes and is never parsed as HTML.

import { headline, visible } from "./format.js";

/** Creates an element. Properties that begin with `on` are listeners; an attribute of null or false is omitted. */
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

/** Sets a text only if it differs. Otherwise the user would lose a selection, and screen readers would announce the text. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Sets the children of `parent` to one element for each item, in order. An item that was there before
 * keeps its element, so focus and scroll position survive a poll.
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

/** Maximum number of characters of a folded text. */
const MAX_LINE = 300;
/** Maximum number of characters of an unfolded text. */
const MAX_UNFOLDED = 8192;
/** Maximum number of characters of a text that is shown without folding. */
const SHORT = 40;

/** Creates a monospaced line of a text. The user can unfold a longer text, which `format` formats. */
export function folded(text, format = (beginning) => visible(beginning)) {
  const line = headline(text, MAX_LINE);
  if (line.length <= SHORT && line === text) return h("span", { class: "mono" }, line);
  const unfolded = h("pre");
  const fill = () => setText(unfolded, format(text.slice(0, MAX_UNFOLDED)) + (text.length > MAX_UNFOLDED ? "…" : ""));
  return h("details", { class: "mono", ontoggle: fill }, h("summary", {}, line), unfolded);
}

let labels = 0;

/** Creates a labelled field with an optional hint. */
export function field(label, control, hint) {
  control.id ||= `field-${(labels += 1)}`;
  const described = hint ? h("small", { id: `${control.id}-hint` }, hint) : null;
  if (described) control.setAttribute("aria-describedby", described.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, described);
}

/** Creates a group of buttons of which one is pressed; `options` are pairs of a value and its label. */
export function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "data-value": value, "aria-pressed": String(value === chosen), onclick: () => set(value, true) }, text));
  const set = (value, notify) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === value));
    if (notify) choose(value);
  };
  const group = h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
  group.set = set;
  return group;
}
