// One question and its answer, as they are shown.

import { AnswerView } from "./answer.js";
import { hasRoute, RequestError, ROUTES } from "./client.js";
import { copyText } from "./clipboard.js";
import { makeButton, makeElement, makeItem, showDone } from "./elements.js";
import { showFailure } from "./errors.js";
import { readableName, showSource } from "./source.js";
import { canSpeak, speak } from "./speech.js";
import { translate } from "./text.js";

const template = document.querySelector("#turn");
const announcer = document.querySelector("#announcer");
const SENTENCE_END = /[.!?\u061f\u06d4](?=\s)|[\u3002\n]/gu;
const STALL_SECONDS = 10; // without anything new, until the page says that it still waits
const ENDINGS = {
  stopped: "stopped",
  failed: "failedEarlier",
  length: "endedAtLimit",
  content_filter: "endedByFilter",
};

export class Turn {
  /**
   * `grow` gets a function that changes the page, and must call it. `actions` has what the buttons
   * do: `ask(question)`, `edit(turn, question)`, `repeat(turn)`, `show(turn, version)`, `link(turn)`.
   */
  constructor(question, { image = null, grow, actions }) {
    Object.assign(this, { question, image, actions, passages: new Map(), announced: 0, scanned: 0 });
    Object.assign(this, { thoughts: [], followups: [], sources: [], ended: "", images: image ? 1 : 0 });
    Object.assign(this, { id: null, isStored: false, versions: [this], waiting: 0 });
    this.element = template.content.cloneNode(true).firstElementChild;
    this.part(".words").textContent = question;
    if (image) this.#showImage(image);
    const label = (number, name) => translate("citation", { number, name });
    this.view = new AnswerView(this.part(".text"), label, grow);
    this.#connect();
  }

  part(selector) {
    return this.element.querySelector(selector);
  }

  #showImage(image) {
    this.part(".question img").src = URL.createObjectURL(image);
    this.part(".question img").hidden = false;
  }

  #connect() {
    const connect = (selector, action) => this.part(selector).addEventListener("click", action);
    connect(".edit", () => this.#edit(true));
    connect(".cancel", () => this.#edit(false));
    connect(".retry", () => this.actions.repeat(this));
    connect(".copy", () => this.#copy());
    connect(".link", () => this.actions.link(this));
    connect(".speak", () => speak(this.part(".speak"), this.part(".text")));
    connect(".continue", () => this.actions.ask(translate("continueQuestion")));
    connect(".text", (event) => this.#openCitation(event));
    connect(".versions .previous", () => this.#showVersion(-1));
    connect(".versions .next", () => this.#showVersion(1));
    for (const button of this.element.querySelectorAll(".rate")) {
      button.addEventListener("click", () => this.#rate(button));
    }
    this.part(".edit-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.part("textarea").value.trim();
      if (!text) return;
      this.#edit(false);
      this.actions.edit(this, text);
    });
    this.part("textarea").addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.stopPropagation(); // the panel of a source stays
        this.#edit(false);
      }
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      this.part(".edit-form").requestSubmit();
    });
  }

  /** Opens the question for editing, or closes it. Nothing changes until it is sent. */
  #edit(opens) {
    this.part(".edit-form").hidden = !opens;
    this.part(".words").hidden = opens;
    this.part(".question-actions").hidden = opens;
    if (!opens) return this.part(".edit").focus();
    this.part("textarea").value = this.question;
    this.part("textarea").focus();
  }

  async #copy() {
    const copied = this.part(".text").cloneNode(true);
    for (const link of copied.querySelectorAll("a.citation")) link.replaceWith(`[${link.textContent}]`);
    const sources = this.view.used.map((name, place) => `[${place + 1}] ${readableName(name)}`);
    copied.append(...sources.map((textContent) => makeElement("p", { textContent })));
    if (await copyText(this.view.text, copied.innerHTML)) showDone(this.part(".copy"), translate("copied"));
  }

  #showVersion(step) {
    const place = this.versions.indexOf(this) + step;
    const version = this.versions[place];
    this.actions.show(this, version);
    const last = place === 0 ? ".next" : place === this.versions.length - 1 ? ".previous" : "";
    version.part(`.versions ${last || (step < 0 ? ".previous" : ".next")}`).focus();
  }

  /** Sets the passages that the answer can cite, from lines `sourcepage: content`. */
  setSources(lines) {
    this.sources = lines;
    this.passages = passagesOf(lines);
    this.view.setCitations([...this.passages.keys()]);
  }

  /** Shows what the app does at present, and how long it has done nothing. */
  wait(step) {
    this.changed = Date.now();
    this.#setStatus(step ? translate(step) : "", true);
    this.waiting ||= setInterval(() => {
      const seconds = Math.round((Date.now() - this.changed) / 1000);
      // A screen reader hears each change.
      if (!seconds || seconds % STALL_SECONDS) return;
      this.#setStatus(translate("stillWorking", { seconds }), true);
    }, 1000);
  }

  #setStatus(text, isBusy) {
    const status = this.part(".status");
    if (status.textContent !== text) status.textContent = text;
    status.classList.toggle("busy", isBusy && text !== "");
  }

  /** Adds a part of the answer. */
  append(text) {
    this.wait("");
    this.view.append(text);
    this.#announce(false);
  }

  /** Shows why there is no answer, or no more of it. */
  fail(failure) {
    showFailure(this.part(".error"), failure);
  }

  /** Ends the answer; `ended` is "stopped", "failed", or the reason of the model. */
  end(ended) {
    clearInterval(this.waiting);
    this.ended = ended;
    this.view.end();
    this.#announce(true);
    const isEmpty = !this.view.text.trim() && !["stopped", "failed"].includes(ended);
    const sentence = isEmpty ? "emptyAnswer" : ENDINGS[ended];
    const isExplained = !this.part(".error").hidden;
    this.#setStatus(sentence && !isExplained ? translate(sentence) : "", false);
    this.part(".image-note").hidden = !this.images || Boolean(this.image);
    this.#showCitations();
    this.#showPassages();
    this.#showThoughts();
    this.#showFollowups();
  }

  /** Shows the actions that are possible: those of the last turn, while no answer is under way. */
  showActions({ isLast, busy, hasAddress }) {
    const shown = {
      ".edit": isLast && !busy,
      ".retry": isLast && !busy,
      ".answer .actions": !(isLast && busy),
      ".followups": isLast,
      ".continue": isLast && !busy && this.ended === "length",
      ".copy": this.view.text,
      ".speak": this.view.text && canSpeak(),
      ".link": hasAddress && this.isStored,
      ".versions": this.versions.length > 1,
    };
    for (const [selector, isShown] of Object.entries(shown)) this.part(selector).hidden = !isShown;
    for (const button of this.element.querySelectorAll(".rate")) {
      button.hidden = !this.requestId || !this.view.text || !hasRoute(ROUTES.ratings);
    }
    this.#showPlace();
  }

  #showPlace() {
    const [place, count] = [this.versions.indexOf(this) + 1, this.versions.length];
    this.part(".versions span").textContent = translate("version", { place, count });
    this.part(".versions .previous").disabled = place === 1;
    this.part(".versions .next").disabled = place === count;
  }

  /** Tells a screen reader each sentence when it is complete. */
  #announce(isEnd) {
    const { text } = this.view;
    SENTENCE_END.lastIndex = Math.max(0, this.scanned - 1); // its end may come with the next text
    let end = this.announced;
    while (SENTENCE_END.test(text)) end = SENTENCE_END.lastIndex;
    this.scanned = text.length;
    if (isEnd) end = text.length;
    const complete = text.slice(this.announced, end);
    this.announced = end;
    if (complete.trim()) announcer.textContent = complete.replace(/\[[^\]\n]{1,500}\]|[*_`#]/g, "");
  }

  /** Rates the answer. */
  async #rate(pressed) {
    const loaded = await import("./feedback.js").catch(() => null); // another press loads it again
    if (loaded) return loaded.rate(this, pressed);
    this.fail(new RequestError("offline"));
  }

  /** Opens the source of a clicked link in the answer. */
  #openCitation(event) {
    const link = event.target.closest("a.citation");
    if (!link) return;
    event.preventDefault();
    const { textContent: number } = link;
    // The link is drawn again while the answer grows.
    const links = () => [...this.element.querySelectorAll("a.citation")];
    this.#openSource(number - 1, () => links().find(({ textContent }) => textContent === number));
  }

  #openSource(place, opener, citations = this.view.used) {
    showSource({ citations, place, passages: this.passages, answer: this.view.text, opener });
  }

  #showCitations() {
    this.part(".citations").replaceChildren(...this.#makeSources(this.view.used));
    this.part(".citations").hidden = !this.view.used.length;
  }

  /** Shows what was found, also where the answer cites nothing of it. */
  #showPassages() {
    const names = [...this.passages.keys()];
    this.part(".passages summary").textContent = translate("passagesFound", { count: names.length });
    this.part(".passages ul").replaceChildren(...this.#makeSources(names));
    this.part(".passages").hidden = !names.length;
  }

  #makeSources(citations) {
    return citations.map((citation, place) => {
      const open = () => this.#openSource(place, () => button, citations);
      const button = makeButton({ className: "quiet" }, open);
      button.append(makeElement("bdi", { textContent: readableName(citation) }));
      return makeItem(button);
    });
  }

  #showThoughts() {
    this.part(".thoughts").hidden = !this.thoughts.length;
    for (const { title, description, props } of this.thoughts) {
      const step = document.createElement("details");
      step.append(makeElement("summary", { textContent: title, lang: "en", dir: "auto" }));
      if (props) step.append(makeElement("pre", { textContent: JSON.stringify(props), dir: "ltr" }));
      const isText = typeof description === "string";
      const text = isText ? description : JSON.stringify(description, null, 2);
      step.append(makeElement("pre", { textContent: text, dir: isText ? "auto" : "ltr" }));
      this.part(".thoughts").append(step);
    }
  }

  #showFollowups() {
    const items = this.followups.map((question) =>
      makeItem(makeButton({ textContent: question, dir: "auto" }, () => this.actions.ask(question))),
    );
    this.part(".followups").replaceChildren(...items);
  }
}

/** Returns the passages by their citation; those of one citation are joined. */
function passagesOf(lines) {
  const passages = new Map();
  for (const line of lines) {
    const place = line.indexOf(": ");
    const [citation, text] = [line.slice(0, place), line.slice(place + 2)];
    const earlier = passages.get(citation);
    passages.set(citation, earlier ? `${earlier}\n\n${text}` : text);
  }
  return passages;
}
