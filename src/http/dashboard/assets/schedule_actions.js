// Actions of an operator on a schedule, which need the scopes `manage` and `put` on its topic.

import { button, showIfAllowed } from "./actions.js";
import { part, read } from "./api.js";
import { confirmChange, showToast } from "./dialog.js";
import { setText } from "./dom.js";
import { time } from "./format.js";
import { changeSchedule } from "./schedule_settings.js";

export const SCOPES = "manage+put";

/** Returns the path of a schedule, or of an action on it. */
export const schedulePath = (name, verb = "") => `/schedules/${part(name)}${verb}`;

const run = ({ name, topic }) =>
  confirmChange({
    title: `Run ${name} now`,
    text: `Puts a job into ${topic} now, even if the schedule is paused. Its next times stay.`,
    button: "Run now",
    request: () => ({ method: "POST", path: schedulePath(name, "/run") }),
    done: ({ id, state }) => `Put ${id}: it is ${state}.`,
  });

const pause = ({ name }) =>
  confirmChange({
    title: `Pause ${name}`,
    text: "The schedule puts no jobs until it is resumed, and skips the times in between. Its jobs stay.",
    button: "Pause",
    request: () => ({ method: "POST", path: schedulePath(name, "/pause") }),
    done: () => `Paused ${name}.`,
  });

const resume = ({ name }) =>
  confirmChange({
    title: `Resume ${name}`,
    text: "The schedule continues with its first time after now.",
    button: "Resume",
    request: () => ({ method: "POST", path: schedulePath(name, "/resume") }),
    done: ({ next: [first] }) => `Resumed ${name}${first ? `: its next time is ${time(first)}` : ""}.`,
  });

const remove = ({ name }) =>
  confirmChange({
    title: `Delete the schedule ${name}`,
    text: "Removes the schedule for good. The jobs that it has put stay.",
    button: "Delete",
    danger: true,
    confirmation: name,
    request: () => ({ method: "DELETE", path: schedulePath(name) }),
    done: () => `Deleted the schedule ${name}.`,
  });

/** Reads the schedule as it is now, and opens the dialog that changes it. */
async function edit({ name }) {
  try {
    changeSchedule(await read(schedulePath(name)));
  } catch (error) {
    showToast(`Failed to read the schedule ${name}: ${error.message}`);
  }
}

/** Creates the buttons of a schedule; `show` takes the schedule. `size` is a class of the buttons. */
export function scheduleButtons(size = "") {
  let schedule = null;
  const act = (label, ask, kind = "") => button(label, SCOPES, () => ask(schedule), { class: `${size} ${kind}`.trim() });
  const toggle = act("Pause", (now) => (now.paused ? resume(now) : pause(now)));
  const buttons = [act("Run now", run), toggle, act("Change", edit), act("Delete", remove, "danger")];
  return {
    buttons,
    show(next) {
      schedule = next;
      setText(toggle, next.paused ? "Resume" : "Pause");
      for (const one of buttons) {
        one.setAttribute("aria-label", `${one.textContent} ${next.name}`);
        one.dataset.topic = next.topic;
        showIfAllowed(one);
      }
    },
  };
}
