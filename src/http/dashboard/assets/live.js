// Polls the overview every two seconds while the tab is visible, even while the server is
// unavailable, so that the page recovers by itself.

import { NoAnswer, get, learn, learned, readsAll } from "./api.js";

const PERIOD = 2000;

/** Returns the overview, or null for a token that may not read all topics. */
async function ask() {
  if (!learned()) await learn();
  if (readsAll()) return get("/overview");
  await get("/access");
  return null;
}

/** Calls `told` with each overview, or `failed` with the error; `failed` returns whether to go on. */
export function poll(told, failed) {
  let timer = null;
  let running = false;
  let again = false;

  async function once() {
    clearTimeout(timer);
    if (running) {
      again = true;
      return;
    }
    running = true;
    let goOn = true;
    try {
      await told(await ask());
    } catch (error) {
      goOn = failed(error);
    }
    running = false;
    if (document.hidden || !goOn) return;
    timer = setTimeout(once, again ? 0 : PERIOD);
    again = false;
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(timer);
    else once();
  });
  addEventListener("online", once);
  once();
  /** For a poll right after a change. */
  return once;
}

/** Describes a failure in one line. */
export function failure(error, since) {
  if (error instanceof NoAnswer) return `No answer from the server since ${since}. Trying again every 2 seconds.`;
  return `The server cannot tell how the queue is: ${error.message}`;
}
