// The view of a list of jobs: state, filters and page. The address holds it, so that a link shows the
// same list, and the Back button the one before.

import { field, h, setText } from "./dom.js";
import { localInput, zone } from "./format.js";

export const STATES = ["ready", "delayed", "reserved", "dead", "finished"];

/** Default number of jobs per page. */
const PAGE = "50";
const PAGES = [PAGE, "200", "1000"];
/** Returns the time by which the jobs of a state can be filtered. */
const boundOf = (state) => (state === "dead" ? "died" : "due");

/** Returns the view of an address: its state and its parameters. */
export function viewOf(state, parameters) {
  const { id_contains = "", error_contains = "", from = "", until = "", limit, cursor = "", before = "0" } = parameters;
  return { state: STATES.includes(state) ? state : null, id_contains, error_contains, from, until, limit: PAGES.includes(limit) ? limit : PAGE, cursor, before: Number(before) || 0 };
}

/** Returns the parameters of a view for its address, without those that are the default. */
export const addressed = ({ state, limit, before, ...filters }) => ({ ...filters, limit: limit === PAGE ? "" : limit, before: before || "" });

/** Returns the filters of a view as parameters of the API. */
export function requested({ state, id_contains, error_contains, from, until }) {
  const bound = boundOf(state);
  return {
    state,
    id_contains,
    error_contains: state === "finished" ? "" : error_contains,
    [`${bound}_after`]: from,
    [`${bound}_before`]: until,
  };
}

/** Returns whether a view shows only some of the jobs of its state. */
export const isFiltered = (view) => Object.entries(requested(view)).some(([name, value]) => name !== "state" && value);

/** Creates the fields. `navigate` takes the changes of the view. */
export function filters(navigate) {
  function search(name) {
    const apply = () => navigate({ [name]: input.value });
    // The button that clears the input causes no change event.
    const input = h("input", { type: "search", autocomplete: "off", spellcheck: "false", maxlength: "256", onchange: apply, onsearch: apply });
    return input;
  }
  const moment = (name) => h("input", { type: "datetime-local", step: "1", onchange: (event) => navigate({ [name]: event.target.value && new Date(event.target.value).toISOString() }) });
  const id = search("id_contains");
  const error = search("error_contains");
  const from = moment("from");
  const until = moment("until");
  const limit = h("select", { onchange: () => navigate({ limit: limit.value }) }, PAGES.map((n) => h("option", { value: n }, n)));
  const errorField = field("Error contains", error);
  const bounds = [field("", from), field("", until)];
  const node = h("div", { class: "fields" }, field("Id contains", id), errorField, bounds, field("Jobs per page", limit));

  return {
    node,
    show(view) {
      id.value = view.id_contains;
      error.value = view.error_contains;
      from.value = localInput(view.from);
      until.value = localInput(view.until);
      limit.value = view.limit;
      errorField.hidden = view.state === "finished";
      const label = boundOf(view.state) === "died" ? "Died" : "Due";
      for (const [one, end] of [[bounds[0], "from"], [bounds[1], "before"]]) setText(one.firstChild, `${label} ${end} (${zone})`);
    },
  };
}
