// Polls the overview every two seconds while the tab is visible, even while the server is
// unavailable, so that the page recovers by itself.

import { NoAnswer, get, loadScopes, hasScopes, canReadAllTopics } from "./api.js";

const PERIOD = 2000;

/** Returns the overview, or null if the token may not read all topics. */
async function fetchOverview() {
  if (!hasScopes()) await loadScopes();
  if (canReadAllTopics()) return get("/overview");
  await get("/access");
  return null;
}

/** Calls `onOverview` with each overview, or `onFailure` with the error; `onFailure` returns whether to continue. */
export function poll(onOverview, onFailure) {
  let timer = null;
  let running = false;
  let isRequested = false;

  async function pollNow() {
    clearTimeout(timer);
    if (running) {
      isRequested = true;
      return;
    }
    running = true;
    let shouldContinue = true;
    try {
      await onOverview(await fetchOverview());
    } catch (error) {
      shouldContinue = onFailure(error);
    }
    running = false;
    if (document.hidden || !shouldContinue) return;
    timer = setTimeout(pollNow, isRequested ? 0 : PERIOD);
    isRequested = false;
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(timer);
    else pollNow();
  });
  addEventListener("online", pollNow);
  pollNow();
  // The caller uses this function to poll right after a change.
  return pollNow;
}

/** Spaces the requests of a panel so that they take at most one part of `share` of the time. */
export function pace(share) {
  let [start, end, running, isWanted] = [0, 0, false, false];
  return {
    begin() { [start, running, isWanted] = [Date.now(), true, false]; },
    end() { [end, running] = [Date.now(), false]; },
    /** Makes the next request due as soon as the running one, if any, has ended. */
    want() { isWanted = true; },
    /** Returns whether the next request is due: wanted, or `period` milliseconds after the last one or later. */
    isDue: (period) => !running && (isWanted || Date.now() - end >= Math.max(period, (end - start) * share)),
  };
}

/** Describes a failure in one line. */
export function failure(error, since) {
  if (error instanceof NoAnswer) return `No answer from the server since ${since}. Trying again every 2 seconds.`;
  return `The server could not report the state of the queue: ${error.message}`;
}
