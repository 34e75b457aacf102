// The preview of a schedule while the user types its timing: the timing in words, and its next times.

import { change } from "./api.js";
import { h, setText } from "./dom.js";
import { relativeTime, time } from "./format.js";

/** Milliseconds without typing before the timing is sent. */
const TYPING_PAUSE = 300;

/** Creates a list of times, each with its distance. */
export function timeList(label) {
  const node = h("ol", { class: "times", "aria-label": label });
  return {
    node,
    show(times) {
      const now = Date.now();
      while (node.children.length > times.length) node.lastChild.remove();
      while (node.children.length < times.length) node.append(h("li", {}, h("span"), " ", h("span", { class: "muted" })));
      times.forEach((at, n) => {
        setText(node.children[n].firstChild, time(at));
        setText(node.children[n].lastChild, relativeTime(at, now));
      });
    },
  };
}

/** Creates the preview; `timing` returns the fields that decide the instants. */
export function preview(timing) {
  const words = h("p");
  const times = timeList("Next times");
  const node = h("div", { class: "preview", role: "status", "aria-label": "Preview" }, words, times.node);
  let timer = null;
  let wanted = null;
  let problem = null;

  function show(text, next = []) {
    setText(words, text);
    times.show(next);
  }

  async function load(fields, written, report) {
    try {
      const { description, next } = await change({ method: "POST", path: "/schedules/preview", body: written });
      if (wanted !== written) return;
      const sentence = description[0].toUpperCase() + description.slice(1);
      show(next.length ? sentence : `${sentence}. No time is left.`, next);
    } catch (error) {
      if (wanted !== written) return;
      problem = error.field in fields || error.field === "cron" ? { text: error.message, name: error.field } : null;
      show(problem ? "No preview until the timing is right." : `No preview: ${error.message}`);
      if (problem) report(problem.text, problem.name);
    }
  }

  return {
    node,
    /** Updates the preview after an input. `report` shows a problem at a field. */
    typed(report) {
      const fields = timing();
      const written = JSON.stringify(fields);
      // An input elsewhere in the form has removed the problem, which is still there.
      if (written === wanted) return problem && report(problem.text, problem.name);
      clearTimeout(timer);
      if (problem) report("");
      [wanted, problem] = [written, null];
      if (fields.cron || fields.every) timer = setTimeout(load, TYPING_PAUSE, fields, written, report);
      else show("The next times appear here when you enter a cron line or an interval.");
    },
  };
}
