// The form below an answer that did not help: what was wrong, and with consent a copy.

import { readFeedbackSetup, sendFeedback } from "./client.js";
import { makeButton, makeElement, makeItem } from "./elements.js";
import { translate } from "./text.js";

const REASONS = ["incorrect", "incomplete", "irrelevant", "unsupported"];
const MAX_COMMENT_LENGTH = 2000; // characters that the app accepts

/**
 * Fills `element` with the form of the answer to a request. `isStored`: the app can take a comment;
 * `fail(error)` shows a failure.
 */
export async function showFeedbackForm(element, { requestId, isStored, fail }) {
  const send = makeSender(requestId, fail);
  element.append(makeReasons(send));
  const setup = isStored ? await readFeedbackSetup().catch(() => ({})) : {};
  if (setup.comments) element.append(makeCommentForm(setup, send));
}

/**
 * Returns a function that changes the feedback, and sends all of it: the last one is what counts.
 * It returns the id of the copy, "" without one, or null if that failed.
 */
function makeSender(requestId, fail) {
  let feedback = { request_id: requestId, rating: "down", reasons: [] };
  let last = null;
  return (change) => {
    last = Promise.resolve(last).then(async () => {
      const changed = { ...feedback, ...change(feedback) };
      try {
        const copy = await sendFeedback(changed);
        feedback = changed;
        return copy;
      } catch (failure) {
        fail(failure);
        return null;
      }
    });
    return last;
  };
}

function makeReasons(send) {
  const list = makeElement("ul", { className: "choices" });
  const items = REASONS.map((reason) => {
    const button = makeButton({ textContent: translate(reason), ariaPressed: false }, async () => {
      if (button.ariaPressed === "true") return; // it is sent
      const sent = await send(({ reasons }) => ({ reasons: [...new Set([...reasons, reason])] }));
      if (sent !== null) button.ariaPressed = true;
    });
    return makeItem(button);
  });
  list.append(...items);
  return list;
}

function makeCommentForm({ copies, copy_days: days }, send) {
  const form = makeElement("form", { className: "comment" });
  const comment = makeElement("textarea", { rows: 2, maxLength: MAX_COMMENT_LENGTH, dir: "auto" });
  comment.placeholder = comment.ariaLabel = translate("comment");
  const consent = makeElement("input", { type: "checkbox" });
  const label = makeElement("label", { hidden: !copies });
  const time = days ? translate("forDays", { days }) : translate("withoutEnd");
  label.append(consent, makeElement("span", { textContent: translate("keepCopy", { time }) }));
  const button = makeElement("button", { textContent: translate("send") });
  const status = makeElement("p", { role: "status" });
  form.append(comment, label, button, status);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    const fields = { comment: comment.value, keep_copy: consent.checked };
    const copy = await send(() => fields);
    button.disabled = false;
    if (copy !== null) showCopy(status, copy, () => (consent.checked = false), send);
  });
  return form;
}

/** Thanks, and says how to delete the copy: by the button now, by its id later. */
function showCopy(status, copy, withdraw, send) {
  status.textContent = translate(copy ? "copyKept" : "feedbackSent", { id: copy });
  if (!copy) return;
  const button = makeButton({ className: "quiet", textContent: translate("deleteCopy") }, async () => {
    if ((await send(() => ({ keep_copy: false }))) === null) return;
    withdraw();
    status.textContent = translate("copyDeleted");
  });
  status.append(" ", button);
}
