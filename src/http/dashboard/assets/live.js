// The heartbeat: asks for the overview every two seconds while the tab is seen, and tells everyone
// who listens. When the server goes away it keeps asking, so it comes back by itself.

import { NoAnswer, get, learn, learned, readsAll } from "./api.js";

const PERIOD = 2000;

/** The overview, or null for a token that may not read all topics. */
async function ask() {
  if (!learned()) await learn();
  if (readsAll()) return get("/overview");
  await get("/access");
  return null;
}

/** Runs `told` after each overview, and `failed` instead if none came. */
export function beat(told, failed) {
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
  /** Asks at once: something was changed. */
  return once;
}

/** How a failure is told in one line. */
export function failure(error, since) {
  if (error instanceof NoAnswer) return `No answer from the server since ${since}. Trying again every 2 seconds.`;
  return `The server cannot tell how the queue is: ${error.message}`;
}
