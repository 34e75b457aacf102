// Selects the page, and fills the bar around it. The part of the address after the "#" selects the
// page, so the server serves one document.

import * as actions from "./actions.js";
import { NoAnswer, may, token } from "./api.js";
import { setText } from "./dom.js";
import { clock, jobLink } from "./format.js";
import { job } from "./job.js";
import { failure, poll } from "./live.js";
import { login } from "./login.js";
import { note, overview } from "./overview.js";
import { topic } from "./topic.js";
import { topics } from "./topics.js";
import { remember } from "./trouble.js";

const [main, banner, pulse, forget, themes, find, put] =
  ["main", "banner", "pulse", "forget", "theme", "find", "put"].map((id) => document.getElementById(id));

let page = null;
let latest;
let lastAnswer = clock(Date.now());
let needsToken = false;

function show(next) {
  document.querySelector("dialog")?.close();
  page?.close?.();
  page = next;
  document.title = `${next.title} – delay-queue`;
  main.replaceChildren(next.node);
  forget.hidden = !token.get();
  put.hidden = needsToken || !may("put");
  next.focus?.();
  if (!needsToken) next.tick?.(latest);
  if (!banner.hidden) next.lost?.();
}

/** Shows the page of the address, or the overview if there is no such page. */
function route() {
  if (needsToken) return;
  const [, kind, name, state] = location.hash.split("/");
  let text = "";
  try { text = decodeURIComponent(name ?? "").trim(); } catch { /* A malformed address shows the overview. */ }
  if (kind === "topic" && text) show(topic(text, state));
  else if (kind === "job" && text) show(job(text));
  else if (kind === "topics") show(topics());
  else show(overview());
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === (location.hash || "#/")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function warn(text) {
  banner.hidden = text === "";
  setText(banner, text);
  document.body.classList.toggle("stale", text !== "");
}

function answered(now) {
  [latest, lastAnswer] = [now, clock(Date.now())];
  warn("");
  setText(pulse, `as of ${clock(now?.as_of ?? Date.now())}`);
  pulse.classList.toggle("bad", now?.store.status === "unavailable");
  if (now) {
    note(now);
    remember(now);
  }
  if (needsToken) {
    needsToken = false;
    route();
  } else {
    page.tick?.(now);
  }
}

/** Shows a failure and returns whether to go on polling. */
function failed(error) {
  if (error.status === 401) {
    const wrong = Boolean(token.get());
    token.forget();
    needsToken = true;
    warn("");
    setText(pulse, "needs a token");
    show(login(wrong, pollNow));
    return false;
  }
  warn(failure(error, lastAnswer));
  page.lost?.();
  setText(pulse, error instanceof NoAnswer ? "no answer" : "error");
  return true;
}

find.addEventListener("submit", (event) => {
  event.preventDefault();
  const id = find.querySelector("input").value.trim();
  if (id) location.hash = jobLink(id);
});
put.addEventListener("click", () => actions.put(page.topic));
put.dataset.scopes = "put";
forget.addEventListener("click", () => {
  token.forget();
  location.reload();
});
themes.addEventListener("click", () => theme.next());
const named = () => setText(themes, `Theme: ${theme.current()}`);
addEventListener("themechange", named);
named();
addEventListener("hashchange", () => {
  route();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});

route();
const pollNow = poll(answered, failed);
addEventListener("changed", () => {
  page.changed?.();
  pollNow();
});
