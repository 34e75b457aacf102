// The buttons that page through a list whose pages the server names with cursors.

import { h, setText } from "./dom.js";

/** Creates the buttons. `navigate` takes `{ cursor, before }` of a page: its cursor and the number of items before it. */
export function pages(navigate) {
  /** The pages from the first to the shown one, as far as the user has seen them. */
  let trail = [];
  let shownList = null;
  let following = null;
  const previous = h("button", { type: "button", disabled: true, onclick: () => navigate(trail.at(-2)) }, "Previous");
  const next = h("button", { type: "button", disabled: true, onclick: () => navigate(following) }, "Next");
  return {
    node: h("div", { class: "row end" }, previous, next),
    /** Goes to a page of a list; `list` identifies the list. */
    go(list, { cursor, before }) {
      // A link can lead into the middle of a list, whose earlier pages are unknown.
      const isLinked = list !== shownList;
      if (isLinked) trail = [{ cursor: "", before: 0 }];
      shownList = list;
      const at = trail.findIndex((page) => page.cursor === cursor);
      trail = at < 0 ? [...trail, { cursor, before, isLinked }] : trail.slice(0, at + 1);
    },
    /** Enables the buttons. `shown` is the number of items of this page, `cursor` that of the next page. */
    show(shown, cursor) {
      following = { cursor, before: trail.at(-1).before + shown };
      next.disabled = cursor === null;
      previous.disabled = trail.length === 1;
      setText(previous, trail[1]?.isLinked && trail.length === 2 ? "First page" : "Previous");
    },
  };
}
