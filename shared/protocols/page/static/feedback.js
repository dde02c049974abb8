// The feedback on an answer: its rating, and what was wrong, and with consent a copy.

import { json, readJson, ROUTES, send } from "./client.js";
import { makeButton, makeElement, makeItem } from "./elements.js";
import { showFailure } from "./errors.js";
import { translate } from "./text.js";

const REASONS = ["incorrect", "incomplete", "irrelevant", "unsupported"];
const MAX_COMMENT_LENGTH = 2000; // characters that the app accepts
const NOTHING = { reasons: [], comment: "", keep_copy: false };

/** Rates the answer of a turn by a pressed button. */
export function rate(turn, button) {
  const isComplete = !["stopped", "failed"].includes(turn.ended);
  turn.feedback ??= new Feedback(turn, turn.isStored && isComplete);
  return turn.feedback.rate(button);
}

/** Gives the turns of a stored conversation the ids of their answers, and shows their ratings. */
export async function restoreFeedback(conversation, shown) {
  const turns = shown.flatMap(({ versions }) => versions);
  const path = `${ROUTES.ratings}/conversations/${conversation}?start=`;
  for (let start = 0; start !== undefined; ) {
    const page = await readJson(path + start).catch(() => null); // they are shown without
    for (const answer of page?.answers ?? []) {
      const turn = turns.find(({ id }) => id === answer.message_id);
      if (turn) restore(turn, answer);
    }
    start = page?.next;
  }
}

function restore(turn, { request_id: requestId, feedback }) {
  const { copy_id: copy = "", ...sent } = feedback ?? NOTHING;
  turn.requestId = requestId;
  turn.feedback = new Feedback(turn, true, { sent, copy });
  turn.feedback.showRating();
  for (const button of turn.feedback.buttons) button.hidden = !turn.view.text;
}

/** Sends the feedback on an answer. Returns the id of its copy, "" without one. Throws RequestError. */
async function sendFeedback(feedback) {
  const response = await send(ROUTES.ratings, json("POST", feedback));
  return response.status === 200 ? (await response.json()).copy_id : "";
}

class Feedback {
  /**
   * `takesComments`: the answer is stored, and a comment with it. `sent` is the feedback that was
   * sent, and `copy` the id of its copy, in an earlier visit.
   */
  constructor(turn, takesComments, { sent = NOTHING, copy = "" } = {}) {
    Object.assign(this, { turn, takesComments, sent, copy, last: Promise.resolve() });
    this.buttons = turn.element.querySelectorAll(".rate");
    this.error = makeElement("p", { className: "error", role: "alert" });
  }

  /** Rates the answer by a pressed button. A bad rating opens the form, a restored one again. */
  async rate(button) {
    const { rating } = button.dataset;
    const form = this.turn.part(".reasons");
    if (button.ariaPressed !== "true") {
      if ((await this.#send(() => ({ ...NOTHING, rating }))) === null) return;
      this.copy = "";
      this.showRating();
      form.replaceChildren(form.firstElementChild);
    }
    form.hidden = this.sent.rating !== "down";
    if (!form.hidden && form.childElementCount === 1) await this.#fill(form);
  }

  /** Shows the rating that was sent. */
  showRating() {
    for (const each of this.buttons) each.ariaPressed = each.dataset.rating === this.sent.rating;
  }

  /**
   * Changes the feedback, and sends all of it: the last one is what counts. Each waits for those
   * before. Returns the id of the copy, "" without one, or null if nothing was sent.
   */
  #send(makeChange) {
    this.last = this.last.then(async () => {
      const change = makeChange(this.sent);
      if (!change) return null;
      const changed = { ...this.sent, ...change };
      try {
        const copy = await sendFeedback({ ...changed, request_id: this.turn.requestId });
        this.sent = changed;
        this.error.remove();
        return copy;
      } catch (failure) {
        this.turn.part(".answer .actions").after(this.error);
        showFailure(this.error, failure);
        return null;
      }
    });
    return this.last;
  }

  /** Sends a change of the form, unless another rating has closed it meanwhile. */
  #sendForm(change) {
    return this.#send((sent) => (sent.rating === "down" ? change(sent) : null));
  }

  async #fill(form) {
    const reasons = makeElement("ul", { className: "choices" });
    reasons.append(...REASONS.map((reason) => makeItem(this.#makeReason(reason))));
    form.append(reasons);
    // What the app keeps of feedback: `comments`, `copies`, `copy_days`.
    const setup = this.takesComments ? await readJson(ROUTES.ratings).catch(() => ({})) : {};
    // Another rating may have emptied the form meanwhile.
    if (setup.comments && reasons.isConnected) form.append(this.#makeCommentForm(setup));
  }

  #makeReason(reason) {
    const properties = {
      textContent: translate(reason),
      ariaPressed: this.sent.reasons.includes(reason),
    };
    const button = makeButton(properties, async () => {
      if (button.ariaPressed === "true") return; // it is sent
      const add = ({ reasons }) => ({ reasons: [...new Set([...reasons, reason])] });
      if ((await this.#sendForm(add)) !== null) button.ariaPressed = true;
    });
    return button;
  }

  #makeCommentForm({ copies, copy_days: days }) {
    const form = makeElement("form", { className: "comment" });
    const comment = makeElement("textarea", { rows: 2, maxLength: MAX_COMMENT_LENGTH, dir: "auto" });
    comment.placeholder = comment.ariaLabel = translate("comment");
    comment.value = this.sent.comment;
    const consent = makeElement("input", { type: "checkbox", checked: this.sent.keep_copy });
    const label = makeElement("label", { hidden: !copies });
    const time = days ? translate("forDays", { days }) : translate("withoutEnd");
    label.append(consent, makeElement("span", { textContent: translate("keepCopy", { time }) }));
    const status = makeElement("p", { role: "status" });
    form.append(comment, label, makeElement("button", { textContent: translate("send") }), status);
    if (this.copy) this.#thank(status, this.copy, consent);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const fields = { comment: comment.value, keep_copy: consent.checked };
      const copy = await this.#sendForm(() => fields);
      if (copy !== null) this.#thank(status, copy, consent);
    });
    return form;
  }

  /** Thanks, and says how to delete the copy: by the button now, by its id later. */
  #thank(status, copy, consent) {
    status.textContent = translate(copy ? "copyKept" : "feedbackSent", { id: copy });
    if (!copy) return;
    const properties = { className: "quiet", textContent: translate("deleteCopy") };
    const button = makeButton(properties, async () => {
      if ((await this.#sendForm(() => ({ keep_copy: false }))) === null) return;
      consent.checked = false;
      consent.focus(); // the button goes
      status.textContent = translate("copyDeleted");
    });
    status.append(" ", button);
  }
}
