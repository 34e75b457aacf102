// The page of a topic: figures, due times, jobs and actions.

import * as actions from "./actions.js";
import { get, part } from "./api.js";
import { upcoming } from "./upcoming.js";
import { h, setText } from "./dom.js";
import { away, count, pausedFor, seconds, visible } from "./format.js";
import { jobs } from "./jobs.js";

const TILES = [
  ["Due, waiting", (t) => count(t.ready), (t) => (t.oldest_ready_age === null ? "none waits" : `oldest for ${seconds(t.oldest_ready_age)}`)],
  ["Delayed", (t) => count(t.delayed), (t) => (t.next_due_at ? `next ${away(t.next_due_at, Date.now())}` : "none")],
  ["Reserved", (t) => count(t.reserved), () => "held by consumers"],
  ["Dead", (t) => count(t.dead), (t) => `kept for ${t.defaults.dead_retention === null ? "the default time" : seconds(t.defaults.dead_retention)}`],
  ["Kept", (t) => count(t.finished), (t) => (t.defaults.finished_retention ? `finished, for ${seconds(t.defaults.finished_retention)}` : "finished, if their puts say so")],
  ["Put", (t) => count(t.since_start.put), () => "by this server since its start"],
  ["Popped", (t) => count(t.since_start.popped), (t) => `${count(t.since_start.expired)} TTRs expired`],
  ["Finished", (t) => count(t.since_start.finished), (t) => `${count(t.since_start.died ?? t.since_start.dead)} became dead`],
];

/** Creates the page of a topic, which lists its jobs of this state. */
export function topic(name, state) {
  const paused = h("span", { class: "badge paused", hidden: true }, "paused");
  const note = h("p", { class: "problem", role: "alert" });
  const cells = TILES.map(([label]) => h("div", { class: "tile" }, h("dt", {}, label), h("dd", { class: "figure" }, "–"), h("dd", { class: "muted" })));
  const pause = actions.button("Pause", "manage", () => (paused.hidden ? actions.pause(name) : actions.resume(name)), { topic: name });
  const kick = actions.button("Kick all dead", "manage", () => actions.kickDead(name), { topic: name });
  const due = upcoming(name);
  const list = jobs(name, state);
  const node = h("div", { class: "page" },
    h("div", { class: "row" },
      h("h1", {}, visible(name), " ", paused),
      h("div", { class: "actions" },
        actions.button("Put a job", "put", () => actions.put(name), { topic: name }), pause, kick,
        actions.button("Purge", "manage", () => actions.purge(name), { topic: name, class: "danger" }))),
    note, h("dl", { class: "tiles", "aria-label": "Figures" }, cells), due.node, list.node);

  async function tick() {
    due.tick();
    let now;
    try {
      now = await get(`/topics/${part(name)}`);
    } catch (error) {
      return setText(note, error.message);
    }
    setText(note, "");
    paused.hidden = !now.paused;
    setText(paused, pausedFor(now));
    setText(pause, now.paused ? "Resume" : "Pause");
    kick.disabled = now.dead === 0;
    list.count(now);
    TILES.forEach(([, figure, more], n) => {
      setText(cells[n].children[1], figure(now));
      setText(cells[n].children[2], more(now));
    });
  }

  return {
    title: visible(name),
    topic: name,
    node,
    tick,
    changed: () => {
      due.refresh();
      list.refresh();
    },
    close: due.close,
  };
}
