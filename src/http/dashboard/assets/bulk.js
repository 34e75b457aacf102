// Actions on many jobs, each a dialog that shows their number first.

import { topicPath } from "./actions.js";
import { change, get, part, query } from "./api.js";
import { confirmChange, showToast } from "./dialog.js";
import { field, h } from "./dom.js";
import { STATES } from "./filters.js";
import { count, counted, headline } from "./format.js";

/** Maximum number of jobs in a batch. */
const MAX_BATCH = 1000;

/** Returns the calls of a batch route for these jobs. */
function batches(path, jobs) {
  const calls = [];
  for (let at = 0; at < jobs.length; at += MAX_BATCH) {
    calls.push({ method: "POST", path, body: JSON.stringify({ jobs: jobs.slice(at, at + MAX_BATCH) }) });
  }
  return calls;
}

/** Reasons of refusals by code; others are described by the server's text. */
const REASONS = { job_not_found: "gone", job_reserved: "reserved", job_finished: "finished" };

/** Sums up the answers of batches: the jobs that were changed, and those that were refused or not sent, with the reasons. */
function summary(verb, answers, total) {
  const results = answers.flatMap((answer) => answer.results);
  const refused = results.filter(({ status }) => status >= 300);
  const reasons = new Map();
  for (const { code, state, detail } of refused) {
    const reason = REASONS[code] ?? (code === "wrong_state" ? `now ${state}` : detail);
    reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  }
  const why = [...reasons].sort(([, a], [, b]) => b - a).slice(0, 4).map(([reason, n]) => `${count(n)} ${reason}`);
  return [
    `${verb} ${counted(results.length - refused.length, "job")}.`,
    refused.length > 0 && `${count(refused.length)} refused: ${why.join(", ")}.`,
    results.length < total && `${count(total - results.length)} not sent.`,
  ].filter(Boolean).join(" ");
}

/** Describes the error that these jobs have in common. */
const because = (error) => (error === undefined ? "" : ` Their error is of the form: ${headline(error, 200)}`);

/** Kicks these jobs; they may have an error in common. */
export const kickJobs = (ids, error) =>
  confirmChange({
    title: `Kick ${counted(ids.length, "job")}`,
    text: `The jobs become ready now. The attempts of dead jobs start from zero.${because(error)}`,
    button: "Kick",
    request: () => batches("/batch/kick", ids.map((id) => ({ id }))),
    done: (answers) => summary("Kicked", answers, ids.length),
  });

/** Deletes these jobs if they are still in this state. */
export const deleteJobs = (ids, state, error) =>
  confirmChange({
    title: `Delete ${counted(ids.length, "job")}`,
    text: `Deletes the jobs for good, if they are still ${state}.${because(error)}`,
    button: "Delete",
    danger: true,
    request: () => batches("/batch/delete", ids.map((id) => ({ id, state }))),
    done: (answers) => summary("Deleted", answers, ids.length),
  });

/** Returns the number of jobs in these states. */
async function remaining(topic, states) {
  const counts = await get(`/topics/${part(topic)}`);
  return states.reduce((sum, state) => sum + counts[state], 0);
}

/** Makes the dead jobs of a topic ready. */
export const kickDead = (topic, dead) =>
  confirmChange({
    title: `Kick all ${counted(dead, "dead job")} of ${topic}`,
    text: "The dead jobs become ready now, and their attempts start from zero. One call kicks at most a million jobs.",
    button: "Kick all",
    request: () => ({ method: "POST", path: `${topicPath(topic, "kick")}?limit=1000000` }),
    remaining: () => remaining(topic, ["dead"]),
    done: ({ kicked }) => `Kicked ${counted(kicked, "dead job")} of ${topic}.`,
  });

const unfinished = (more) => (more ? " There are more: repeat it to reach them." : "");

/** Kicks the jobs of a topic that match these parameters, after counting them. */
export const kickMatching = (topic, parameters) =>
  ofMatching({ method: "POST", path: `${topicPath(topic, "kick")}${query({ ...parameters, limit: 1_000_000 })}` }, {
    title: (n) => `Kick ${n} of ${topic}`,
    text: "All jobs that match the filters become ready now. The attempts of dead jobs start from zero.",
    button: "Kick all",
    done: ({ kicked, more }) => `Kicked ${counted(kicked, "job")} of ${topic}.${unfinished(more)}`,
  });

/** Deletes the jobs of a topic that match these parameters, after counting them. */
export const deleteMatching = (topic, parameters) =>
  ofMatching({ method: "DELETE", path: `${topicPath(topic, "jobs")}${query(parameters)}` }, {
    title: (n) => `Delete ${n} of ${topic}`,
    text: "Deletes all jobs that match the filters for good.",
    button: "Delete all",
    danger: true,
    done: ({ purged, more }) => `Deleted ${counted(purged, "job")} of ${topic}.${unfinished(more)}`,
  });

async function ofMatching(call, { title, ...question }) {
  try {
    const { kicked, purged, more } = await change({ ...call, path: `${call.path}&dry_run=true` });
    const n = kicked ?? purged;
    confirmChange({ title: title(`${more ? "at least " : ""}${counted(n, "job")}`), request: () => call, ...question });
  } catch (error) {
    showToast(`Failed to count the jobs: ${error.message}`);
  }
}

/** Deletes the jobs of a topic. */
export function purge(topic, counts) {
  const statesOf = (name) => (name === "all" ? STATES : [name]);
  const numberOf = (name) => statesOf(name).reduce((sum, state) => sum + counts[state], 0);
  const state = h("select", {}, ["all", ...STATES].map((name) => h("option", { value: name }, `${name}: ${count(numberOf(name))}`)));
  confirmChange({
    title: `Purge ${topic}`,
    text: "Deletes the topic's jobs for good, in small steps. This cannot be undone.",
    fields: [field("Jobs in the state", state)],
    button: "Purge",
    danger: true,
    confirmation: topic,
    request: () => {
      const which = state.value === "all" ? "" : `?state=${state.value}`;
      return { method: "DELETE", path: `${topicPath(topic, "jobs")}${which}` };
    },
    remaining: () => remaining(topic, statesOf(state.value)),
    done: ({ purged }) => `Purged ${counted(purged, "job")} of ${topic}.`,
  });
}
