// The feedback on an answer: its rating, and what was wrong, and with consent a copy.

import { readFeedbackSetup, sendFeedback } from "./client.js";
import { makeButton, makeElement, makeItem } from "./elements.js";
import { showFailure } from "./errors.js";
import { translate } from "./text.js";

const REASONS = ["incorrect", "incomplete", "irrelevant", "unsupported"];
const MAX_COMMENT_LENGTH = 2000; // characters that the app accepts
const NOTHING = { reasons: [], comment: "", keep_copy: false };

export class Feedback {
  /** `takesComments`: the answer is stored, and a comment with it. */
  constructor(turn, takesComments) {
    Object.assign(this, { turn, takesComments, sent: NOTHING, last: Promise.resolve() });
    this.error = makeElement("p", { className: "error", role: "alert" });
  }

  /** Rates the answer by a pressed button. A bad rating opens the form. */
  async rate(button) {
    const { rating } = button.dataset;
    if (button.ariaPressed === "true") return; // it is sent
    if ((await this.#send(() => ({ ...NOTHING, rating }))) === null) return;
    for (const each of this.turn.element.querySelectorAll(".rate")) {
      each.ariaPressed = each === button;
    }
    const form = this.turn.part(".reasons");
    form.replaceChildren(form.firstElementChild);
    form.hidden = rating !== "down";
    if (!form.hidden) await this.#fill(form);
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
    const setup = this.takesComments ? await readFeedbackSetup().catch(() => ({})) : {};
    // Another rating may have emptied the form meanwhile.
    if (setup.comments && reasons.isConnected) form.append(this.#makeCommentForm(setup));
  }

  #makeReason(reason) {
    const button = makeButton({ textContent: translate(reason), ariaPressed: false }, async () => {
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
    const consent = makeElement("input", { type: "checkbox" });
    const label = makeElement("label", { hidden: !copies });
    const time = days ? translate("forDays", { days }) : translate("withoutEnd");
    label.append(consent, makeElement("span", { textContent: translate("keepCopy", { time }) }));
    const status = makeElement("p", { role: "status" });
    form.append(comment, label, makeElement("button", { textContent: translate("send") }), status);
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
