// The dialog of every change: description, fields, the curl line of the same call, and the error if
// the call fails.

import { change, curl, token } from "./api.js";
import { h, setText } from "./dom.js";

/** Shows a result in a corner for 8 seconds; screen readers announce it. */
export function showToast(text) {
  const toast = h("p", { class: "toast" }, text);
  document.getElementById("said").append(toast);
  setTimeout(() => toast.remove(), 8000);
}

/**
 * Asks the user to confirm a change, and makes it.
 * - `title`, `text`: name and description of the change;
 * - `fields`: elements of the form;
 * - `request`: returns the call, or a list of calls, for the current fields; throws an Error if a
 *   field is invalid. A refusal of a field is shown below the control with its name;
 * - `button`, `danger`: label of the button, and whether the change destroys data;
 * - `confirmation`: text that the user must type first;
 * - `remaining`: returns the number of remaining jobs, for the progress of a long call;
 * - `typed`: called when the dialog opens and after each input, with a function that shows a problem, its text and the
 *   name of its field, without moving the focus;
 * - `done`: describes the result for the answer, or for the answers so far to a list of calls.
 */
export function confirmChange({ title, text, fields = [], request, button, danger = false, confirmation = null, remaining, typed, done }) {
  const problem = h("p", { class: "problem", id: "refusal", role: "alert" });
  const progress = h("progress", { hidden: true, "aria-label": "Progress" });
  const line = h("code");
  const confirm = confirmation && h("input", { id: "typed", autocomplete: "off", spellcheck: "false" });
  const submit = h("button", { type: "submit", class: danger ? "danger" : "primary" }, button);
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const copy = h("button", { type: "button", class: "small", onclick: () => copyText(line.textContent, copy) }, "Copy");
  const form = h("form", { novalidate: true, onsubmit: (event) => { event.preventDefault(); run(); }, oninput: refresh },
    h("h2", { id: "asked" }, title),
    h("p", {}, text),
    fields,
    confirm && h("div", { class: "field" }, h("label", { for: "typed" }, "Type ", h("strong", {}, confirmation), " to confirm"), confirm),
    h("div", { class: "curl" },
      h("div", { class: "row" }, h("span", { class: "muted" }, "The same in a shell", token.get() ? ", with the token in $DELAY_QUEUE_TOKEN" : ""), copy),
      h("pre", { tabindex: "0", role: "region", "aria-label": "curl line" }, line)),
    problem, progress,
    h("div", { class: "row end" }, cancel, submit));
  const dialog = h("dialog", { "aria-labelledby": "asked", onclose: () => dialog.remove() }, form);

  function refresh() {
    submit.disabled = Boolean(confirm && confirm.value !== confirmation);
    try {
      setText(line, [request()].flat().map(curl).join("\n"));
      report("");
    } catch (error) {
      setText(line, error.message);
    }
    typed?.((text, name) => report(text, name, false));
  }

  /** Returns the control of a field: that of its name or, as for `backoff[1]` and `backoff.jitter`, of the name's first part. */
  function controlOf(name) {
    const named = (part) => form.querySelector(`[name="${CSS.escape(part)}"]`);
    return named(name) ?? named(name.match(/^\w*/)[0]);
  }

  /** Shows a problem below the control with this name, or at the end of the form. `moves` the focus to the control. */
  function report(text, name, moves = true) {
    form.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
    const control = name && controlOf(name);
    if (control) {
      control.setAttribute("aria-invalid", "true");
      control.parentElement.append(problem);
      control.closest("details")?.setAttribute("open", "");
      if (moves) control.focus();
    } else {
      progress.before(problem);
    }
    setText(problem, text);
  }

  async function run() {
    if (submit.disabled) return;
    let call;
    try {
      call = request();
    } catch (error) {
      return report(error.message, error.field);
    }
    submit.disabled = true;
    setText(problem, "");
    const timer = watchProgress();
    const answers = [];
    try {
      const answer = Array.isArray(call) ? await callEach(call, answers) : await change(call);
      dialog.close();
      showToast(done(answer));
      dispatchEvent(new Event("changed"));
    } catch (error) {
      submit.disabled = false;
      const unknown = error.applied === "unknown" ? ". The change may have been made: check before you repeat it." : "";
      const before = answers.length ? `${done(answers)} Then: ` : "";
      report(`Failed: ${before}${error.message}${unknown}`, error.field);
      if (before) dispatchEvent(new Event("changed"));
    } finally {
      clearInterval(timer);
      progress.hidden = true;
    }
  }

  /** Makes one call after the other and adds their answers. Closing the dialog stops the sequence after the current call. */
  async function callEach(calls, answers) {
    progress.max = calls.length;
    progress.hidden = calls.length === 1;
    for (const call of calls) {
      if (!dialog.open) break;
      answers.push(await change(call));
      progress.value = answers.length;
    }
    return answers;
  }

  /** Shows the progress of one long call. */
  function watchProgress() {
    if (!remaining) return null;
    let first = null;
    return setInterval(async () => {
      const now = await remaining().catch(() => null);
      if (now === null || !dialog.open) return;
      first ??= Math.max(now, 1);
      progress.max = first;
      progress.value = Math.max(0, first - now);
      progress.hidden = submit.disabled === false;
    }, 500);
  }

  document.body.append(dialog);
  refresh();
  dialog.showModal();
  (form.querySelector("input, textarea, select") ?? (danger ? cancel : submit)).focus();
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    setText(button, "Copied");
  } catch {
    // Over plain HTTP, browsers deny access to the clipboard, but the user can select the line.
    setText(button, "Select it");
  }
}
