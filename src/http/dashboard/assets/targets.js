// Health of the targets of pushes, failing ones first, as this server knows it.

import { h, keyed, setText, table } from "./dom.js";
import { count, rate, seconds, topicLink } from "./format.js";

const COLUMNS = ["Target", "State", "Topics", "Delivered/s", "Failed/s", "Mean time"];
/** Maximum number of targets that are shown. */
const MAX_SHOWN = 20;

/** Creates the panel, which is hidden while there is no push. */
export function targets() {
  const { node: list, body } = table(COLUMNS);
  const note = h("p", { class: "muted" });
  const node = h("section", { class: "panel", hidden: true, "aria-labelledby": "targets" },
    h("h2", { id: "targets" }, "Targets of pushes"), note,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of targets" }, list));

  const create = ({ target }) =>
    h("tr", {}, h("th", { scope: "row" }, target), COLUMNS.slice(1).map((name, n) => h("td", { "data-label": name, class: n === 1 ? "text" : "" }, n < 2 && h("span"))));

  function update(row, { state, topics, rates, mean_seconds: mean }) {
    const [, health, names, delivered, failed, time] = row.children;
    health.firstChild.className = `badge ${state}`;
    setText(health.firstChild, state);
    if (names.textContent !== topics.join(", ")) {
      names.firstChild.replaceChildren(...topics.flatMap((topic, n) => [n ? ", " : "", h("a", { href: topicLink(topic) }, topic)]));
    }
    setText(delivered, rate(rates.delivered));
    setText(failed, rate(rates.failed));
    failed.classList.toggle("late", rates.failed > 0);
    setText(time, seconds(mean));
  }

  return {
    node,
    tick({ pushes = [] }) {
      node.hidden = pushes.length === 0;
      const more = pushes.length > MAX_SHOWN ? ` ${count(pushes.length - MAX_SHOWN)} more are not shown.` : "";
      setText(note, `Closed: the target answers. Open: it fails, and one request a second probes it. Rates are those of this server over the last minute.${more}`);
      keyed(body, pushes.slice(0, MAX_SHOWN), ({ target }) => target, create, update);
    },
  };
}
