// Scroll positions of the pages to which the Back and Forward buttons lead.

/** Milliseconds in which a page may grow until its old position exists. */
const LIMIT = 5000;

const positions = new Map();
let entries = 0;

/** Returns the name of the current entry of the history, which it keeps. */
function entry() {
  if (!history.state?.entry) history.replaceState({ entry: `${performance.timeOrigin} ${(entries += 1)}` }, "");
  return history.state.entry;
}

history.scrollRestoration = "manual";
let current = entry();

/** Records the position of the page that the user leaves. Call it after the address has changed. */
export function leave() {
  positions.set(current, scrollY);
  current = entry();
}

/** Scrolls to where the user was in this entry, or to the top of a new one. */
export function enter() {
  const y = positions.get(current) ?? 0;
  scrollTo(0, y);
  if (scrollY >= Math.floor(y)) return;
  // Lists arrive later than their page.
  const grown = new ResizeObserver(() => {
    scrollTo(0, y);
    if (scrollY >= Math.floor(y)) stop();
  });
  const events = ["wheel", "touchstart", "keydown", "pointerdown", "hashchange"];
  const timer = setTimeout(stop, LIMIT);
  function stop() {
    grown.disconnect();
    clearTimeout(timer);
    for (const name of events) removeEventListener(name, stop);
  }
  for (const name of events) addEventListener(name, stop);
  grown.observe(document.body);
}
