// Shows the page that the address names after the "#", and fills the bar above it.
//
// A page has a `title` and a `node`. It may have `tick`, called with each overview; `changed`, called
// after a change by the user; `lost`, called when a poll fails; `focus`; `close`; and `go`, called when
// the address names another list of the same page.

import * as actions from "./actions.js";
import { NoAnswer, may, token } from "./api.js";
import { setText } from "./dom.js";
import { clock, jobLink } from "./format.js";
import { job } from "./job.js";
import { failure, poll } from "./live.js";
import { login } from "./login.js";
import { addSample, overview } from "./overview.js";
import * as place from "./place.js";
import { schedule } from "./schedule.js";
import { schedules } from "./schedules.js";
import { topic } from "./topic.js";
import { topics } from "./topics.js";
import { recordPoll } from "./trouble.js";

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

/** Creates the page of this kind and name, or the overview if there is no such page. */
function create(kind, name, state, parameters) {
  if (kind === "topic" && name) return topic(name, state, parameters);
  if (kind === "job" && name) return job(name);
  if (kind === "schedule" && name) return schedule(name);
  if (kind === "schedules") return schedules(parameters);
  return kind === "topics" ? topics(parameters) : overview(parameters);
}

/** Shows the page of the address. Keeps the page if the address only names another list of it, and returns whether it did. */
function route() {
  if (needsToken) return false;
  const [path, search] = location.hash.split(/\?(.*)/s);
  const [, kind = "", name = "", state] = path.split("/");
  let text = "";
  try { text = decodeURIComponent(name).trim(); } catch { /* A malformed address shows the overview. */ }
  const parameters = Object.fromEntries(new URLSearchParams(search));
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === (path || "#/")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const address = `${kind}/${text}`;
  if (page?.go && page.address === address) {
    document.querySelector("dialog")?.close();
    page.go(state, parameters);
    return true;
  }
  show(Object.assign(create(kind, text, state, parameters), { address }));
  return false;
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
    addSample(now);
    recordPoll(now);
  }
  if (needsToken) {
    needsToken = false;
    route();
  } else {
    page.tick?.(now);
  }
}

/** Shows a failed poll and returns whether to continue polling. */
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
const showTheme = () => setText(themes, `Theme: ${theme.current()}`);
addEventListener("themechange", showTheme);
showTheme();
addEventListener("hashchange", () => {
  place.leave();
  if (route()) return;
  main.focus({ preventScroll: true });
  place.enter();
});

route();
const pollNow = poll(answered, failed);
addEventListener("changed", () => {
  page.changed?.();
  pollNow();
});
