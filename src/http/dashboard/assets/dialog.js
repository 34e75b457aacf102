// The dialog of every change: description, fields, the curl line of the same call, and the refusal
// if there is one.

import { change, curl, token } from "./api.js";
import { h, setText } from "./dom.js";

/** Shows a result in a corner for 8 seconds; screen readers announce it. */
export function say(text) {
  const toast = h("p", { class: "toast" }, text);
  document.getElementById("said").append(toast);
  setTimeout(() => toast.remove(), 8000);
}

/**
 * Asks the user to confirm a change, and makes it.
 * - `title`, `text`: name and description of the change;
 * - `fields`: elements of the form;
 * - `request`: returns the call, or a list of calls, for the current fields, or throws an Error with
 *   the fault;
 * - `button`, `danger`: label of the button, and whether the change destroys data;
 * - `typed`: text that the user must type first;
 * - `left`: returns the number of remaining jobs, for the progress of a long call;
 * - `done`: returns the result in words for an answer; it may be async.
 */
export function ask({ title, text, fields = [], request, button, danger = false, typed = null, left, done }) {
  const problem = h("p", { class: "problem", role: "alert" });
  const progress = h("progress", { hidden: true, "aria-label": "Progress" });
  const line = h("code");
  const confirm = typed && h("input", { id: "typed", autocomplete: "off", spellcheck: "false" });
  const act = h("button", { type: "submit", class: danger ? "danger" : "primary" }, button);
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const copy = h("button", { type: "button", class: "small", onclick: () => copied(line.textContent, copy) }, "Copy");
  const form = h("form", { novalidate: true, onsubmit: (event) => { event.preventDefault(); run(); }, oninput: refresh },
    h("h2", { id: "asked" }, title),
    h("p", {}, text),
    fields,
    confirm && h("div", { class: "field" }, h("label", { for: "typed" }, "Type ", h("strong", {}, typed), " to confirm"), confirm),
    h("div", { class: "curl" },
      h("div", { class: "row" }, h("span", { class: "muted" }, "The same in a shell", token.get() ? ", with the token in $DELAY_QUEUE_TOKEN" : ""), copy),
      h("pre", { tabindex: "0", role: "region", "aria-label": "curl line" }, line)),
    problem, progress,
    h("div", { class: "row end" }, cancel, act));
  const dialog = h("dialog", { "aria-labelledby": "asked", onclose: () => dialog.remove() }, form);

  function refresh() {
    act.disabled = Boolean(confirm && confirm.value !== typed);
    try {
      setText(line, [request()].flat().map(curl).join("\n"));
      setText(problem, "");
    } catch (error) {
      setText(line, error.message);
    }
  }

  async function run() {
    if (act.disabled) return;
    let call;
    try {
      call = request();
    } catch (error) {
      return setText(problem, error.message);
    }
    act.disabled = true;
    setText(problem, "");
    const watched = watch();
    try {
      const answer = Array.isArray(call) ? await each(call) : await change(call);
      dialog.close();
      say(await done(answer));
      dispatchEvent(new Event("changed"));
    } catch (error) {
      const unknown = error.applied === "unknown" ? ". The change may have been made: check before you repeat it." : "";
      setText(problem, `Failed: ${error.message}${unknown}`);
      act.disabled = false;
    } finally {
      clearInterval(watched);
      progress.hidden = true;
    }
  }

  /** Makes one call after the other. Closing the dialog stops the sequence after the current call. */
  async function each(calls) {
    progress.max = calls.length;
    progress.hidden = false;
    const answers = [];
    for (const call of calls) {
      if (!dialog.open) break;
      answers.push(await change(call).catch((error) => {
        // A job that is gone or reserved by now does not stop the others.
        if (error.status === 404 || error.status === 409) return null;
        throw error;
      }));
      progress.value = answers.length;
    }
    return answers;
  }

  /** Shows the progress of one long call. */
  function watch() {
    if (!left) return null;
    let first = null;
    return setInterval(async () => {
      const now = await left().catch(() => null);
      if (now === null || !dialog.open) return;
      first ??= Math.max(now, 1);
      progress.max = first;
      progress.value = Math.max(0, first - now);
      progress.hidden = act.disabled === false;
    }, 500);
  }

  document.body.append(dialog);
  refresh();
  dialog.showModal();
  (form.querySelector("input, textarea, select") ?? (danger ? cancel : act)).focus();
}

async function copied(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    setText(button, "Copied");
  } catch {
    // Pages without HTTPS get no clipboard access; the user can select the line.
    setText(button, "Select it");
  }
}
