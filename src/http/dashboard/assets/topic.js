// The page of a topic: figures, due times, jobs and actions.

import * as actions from "./actions.js";
import { get, part } from "./api.js";
import { kickDead, purge } from "./bulk.js";
import { upcoming } from "./upcoming.js";
import { h, setText } from "./dom.js";
import { relativeTime, count, pausedFor, schedulesLink, seconds, visible } from "./format.js";
import { groups } from "./groups.js";
import { jobs } from "./jobs.js";
import { defaults } from "./policy.js";
import { push } from "./push.js";
import { changeSettings } from "./settings.js";

const TILES = [
  ["Due, waiting", (t) => count(t.ready), (t) => (t.oldest_ready_age === null ? "none waiting" : `oldest for ${seconds(t.oldest_ready_age)}`)],
  ["Delayed", (t) => count(t.delayed), (t) => (t.next_due_at ? `next ${relativeTime(t.next_due_at, Date.now())}` : "none")],
  ["Reserved", (t) => count(t.reserved), () => "held by consumers"],
  ["Dead", (t) => count(t.dead), (t) => `kept for ${t.defaults.dead_retention === null ? "the default time" : seconds(t.defaults.dead_retention)}`],
  ["Kept", (t) => count(t.finished), (t) => (t.defaults.finished_retention ? `finished, for ${seconds(t.defaults.finished_retention)}` : "finished, if put with a retention")],
  ["Put", (t) => count(t.since_start.put), () => "by this server since its start"],
  ["Popped", (t) => count(t.since_start.popped), (t) => `${count(t.since_start.timed_out)} TTRs ended`],
  ["Finished", (t) => count(t.since_start.finished), (t) => `${count(t.since_start.died ?? t.since_start.dead)} became dead`],
];

/** Creates the page of a topic, which lists its jobs of this state that match these parameters. */
export function topic(name, state, parameters) {
  let counts = null;
  const paused = h("span", { class: "badge paused", hidden: true }, "paused");
  const note = h("p", { class: "problem", role: "alert" });
  const rules = h("p", { class: "muted", hidden: true });
  const cells = TILES.map(([label]) => h("div", { class: "tile" }, h("dt", {}, label), h("dd", { class: "figure" }, "–"), h("dd", { class: "muted" })));
  const pause = actions.button("Pause", "manage", () => (paused.hidden ? actions.pause(name) : actions.resume(name)), { topic: name });
  // These actions show the present values, so they are disabled until the values are known.
  const ofTopic = { topic: name, disabled: true };
  const settings = actions.button("Settings", "manage", () => changeSettings(name, counts.defaults), ofTopic);
  const kick = actions.button("Kick all dead", "manage", () => kickDead(name, counts.dead), ofTopic);
  const remove = actions.button("Purge", "manage", () => purge(name, counts), { ...ofTopic, class: "danger" });
  const pushed = push(name);
  const due = upcoming(name);
  const errors = groups(name);
  const list = jobs(name, errors.show);
  const node = h("div", { class: "page" },
    h("div", { class: "row" },
      h("h1", {}, visible(name), " ", paused),
      h("div", { class: "actions" },
        h("a", { href: schedulesLink(name) }, "Schedules"),
        actions.button("Put a job", "put", () => actions.put(name), { topic: name }), pause, settings, pushed.setUp, kick, remove)),
    note, h("dl", { class: "tiles", "aria-label": "Figures" }, cells), rules, pushed.node, due.node, errors.node, list.node);

  async function tick() {
    due.tick();
    let now;
    try {
      now = await get(`/topics/${part(name)}`);
    } catch (error) {
      return setText(note, error.message);
    }
    setText(note, "");
    counts = now;
    settings.disabled = remove.disabled = false;
    paused.hidden = !now.paused;
    setText(paused, pausedFor(now));
    setText(pause, now.paused ? "Resume" : "Pause");
    kick.disabled = now.dead === 0;
    setText(rules, defaults(now.defaults));
    rules.hidden = rules.textContent === "";
    pushed.tick(now.push);
    list.count(now);
    list.tick();
    errors.tick(now.dead);
    TILES.forEach(([, figure, more], n) => {
      setText(cells[n].children[1], figure(now));
      setText(cells[n].children[2], more(now));
    });
  }

  list.go(state, parameters);
  return {
    title: visible(name),
    topic: name,
    node,
    tick,
    /** Shows another list of the same topic. */
    go: list.go,
    changed: () => {
      due.refresh();
      list.refresh();
      errors.refresh();
    },
    close: due.close,
  };
}
