// The conversation that is shown: sends questions, shows answers, stores what the app does not.

import { addressOf, setAddress } from "./address.js";
import { hasRoute, RequestError, ROUTES, streamAnswer } from "./client.js";
import { copyText } from "./clipboard.js";
import { openFile, showDone } from "./elements.js";
import { markTurn, readName, readNewest, renameConversation, storeTurn } from "./memory.js";
import { keepEndInView, scrollToEnd } from "./scroll.js";
import { closeSource } from "./source.js";
import { stopSpeaking } from "./speech.js";
import { translate } from "./text.js";
import { Turn } from "./turn.js";

const list = document.querySelector("#turns");
const welcome = document.querySelector("#welcome");
const [sendButton, stopButton, saveButton] = ["#send", "#stop", "#save"].map((selector) =>
  document.querySelector(selector),
);
const MAX_NAME_LENGTH = 100; // characters of a question that become the name of a conversation

export class Chat {
  /**
   * `remembers`: whether conversations are stored. `options()` returns the overrides. `handlers` react
   * to `failed(failure, turn, retry)`, `changed()`, for another conversation or name in the store, and
   * `focusLost()`, when the element with the focus may be gone.
   */
  constructor(remembers, options, handlers) {
    Object.assign(this, { remembers, options, handlers, turns: [], id: null, controller: null });
    // What is being stored: the next question waits for it.
    this.storing = Promise.resolve();
    this.actions = {
      ask: (question) => this.ask(question),
      edit: (turn, question) => this.#replace(turn, question),
      repeat: (turn) => this.#replace(turn, turn.question),
      show: (turn, version) => this.#show(turn, version),
      link: (turn) => this.#copyAddress(turn),
    };
    stopButton.addEventListener("click", () => this.controller?.abort());
    saveButton.addEventListener("click", () => this.#save());
    addEventListener("pagehide", () => {
      this.#abandon({ keepalive: true });
      this.storeNow?.();
    });
    addEventListener("pageshow", ({ persisted }) => persisted && location.reload()); // its answer was ended
    this.#showBusy();
  }

  /** Begins another conversation, or shows a stored one, at the end or at one of its turns, from 1. */
  open(id = null, storedTurns = [], place = 0) {
    this.storing = Promise.all([this.storing, this.#abandon()]);
    closeSource();
    stopSpeaking();
    Object.assign(this, { id, turns: [] });
    list.replaceChildren();
    let replaced = [];
    for (const [number, stored] of storedTurns.entries()) {
      const turn = this.#restore(stored);
      turn.versions = [...replaced, turn];
      const isLast = number === storedTurns.length - 1;
      // A replaced turn without a successor is one whose new answer never came.
      replaced = stored.replaced && !isLast ? turn.versions : [];
      if (replaced.length) continue;
      for (const version of turn.versions) version.versions = turn.versions;
      this.turns.push(turn);
      list.append(turn.element);
    }
    for (const turn of this.turns) this.#showActions(turn);
    if (this.turns.length && hasRoute(ROUTES.ratings)) restoreFeedback(id, this.turns);
    welcome.hidden = this.turns.length > 0;
    this.#showBusy();
    const target = this.turns[place - 1];
    if (target) target.element.scrollIntoView();
    else if (this.turns.length) scrollToEnd();
  }

  #restore({ id, question, text, sources, ended, images }) {
    const turn = this.#makeTurn(question);
    Object.assign(turn, { id, images, isStored: true });
    turn.setSources(sources);
    turn.view.append(text);
    turn.end(ended || (text.trim() ? "" : "stopped"));
    return turn;
  }

  #makeTurn(question, image = null) {
    return new Turn(question, { image, grow: keepEndInView, actions: this.actions });
  }

  /** Asks a question and shows the answer. */
  async ask(question, image = null) {
    if (this.controller) return;
    const turn = this.#makeTurn(question, image);
    this.turns.push(turn);
    welcome.hidden = true;
    list.append(turn.element);
    await this.#answer(turn);
  }

  /** Asks a question in the place of the last turn, whose earlier versions can still be shown. */
  async #replace(old, question) {
    if (this.controller) return;
    const turn = this.#makeTurn(question, old.image);
    const earlier = old.versions.filter((each) => each !== old || old.view.text);
    turn.versions = [...earlier, turn];
    for (const version of earlier) version.versions = turn.versions;
    this.#show(old, turn);
    this.handlers.focusLost();
    await this.#answer(turn);
  }

  #show(turn, version) {
    this.turns[this.turns.indexOf(turn)] = version;
    turn.element.replaceWith(version.element);
    closeSource();
    this.#showBusy();
    this.#showActions(version);
  }

  #request(turn) {
    const overrides = this.options();
    const context = Object.keys(overrides).length ? { overrides } : {};
    const earlier = this.turns.slice(0, this.turns.indexOf(turn)).filter(({ view }) => view.text);
    // The app reads the history of a conversation, the newest version of each turn.
    const isKnown = (each) => each.isStored && each === each.versions.at(-1);
    const readsHistory = this.id && earlier.every(isKnown);
    const messages = (readsHistory ? [] : earlier).flatMap(({ question, view }) => [
      { role: "user", content: question },
      { role: "assistant", content: view.text },
    ]);
    messages.push({ role: "user", content: turn.question });
    const state = this.remembers ? { conversation_id: this.id } : null;
    return { messages, context, sessionState: state };
  }

  async #answer(turn) {
    const controller = new AbortController();
    const marking = this.storing.then(() => this.#markReplaced(turn));
    Object.assign(this, { controller, answering: { turn, marking } });
    this.#showBusy();
    turn.wait("searching");
    scrollToEnd();
    let ended = "failed";
    try {
      await marking;
      ended = await this.#receive(turn, controller.signal);
    } catch (error) {
      ended = error.name === "AbortError" ? "stopped" : "failed";
      if (ended === "failed") this.#fail(turn, error);
    }
    if (this.controller !== controller) return; // another conversation was opened, or the page left
    this.controller = null;
    keepEndInView(() => {
      turn.end(ended);
      this.#showBusy();
    });
    this.storing = this.#store(turn, ended, marking).catch(() => {}).then(() => this.#showBusy());
    this.handlers.focusLost();
  }

  async #receive(turn, signal) {
    const begin = (requestId) => (turn.requestId = requestId);
    let reason = "";
    for await (const line of streamAnswer(this.#request(turn), turn.image, signal, begin)) {
      signal.throwIfAborted();
      const { delta, context = {}, sessionState } = line;
      if (context.data_points) this.#begin(turn, context, sessionState);
      turn.followups = context.followup_questions ?? turn.followups;
      reason = context.finish_reason ?? reason;
      if (delta?.content) turn.append(delta.content);
    }
    turn.isStored = this.id !== null && turn.view.text.trim() !== "";
    return reason;
  }

  #begin(turn, context, state) {
    turn.hasBegun = true;
    turn.setSources(context.data_points.text);
    turn.thoughts = context.thoughts ?? [];
    turn.wait("writing");
    const id = this.remembers ? state?.conversation_id : null;
    if (!id || id === this.id) return;
    this.id = id;
    setAddress(id, { replace: true });
    this.handlers.changed();
  }

  #fail(turn, error) {
    const failure = error instanceof RequestError ? error : new RequestError("interrupted");
    if (!(error instanceof RequestError)) console.error(error);
    if (failure.status === 404 && this.id) this.#forget();
    keepEndInView(() => turn.fail(failure));
    this.handlers.failed(failure, turn, () => this.#replace(turn, turn.question));
  }

  /** The conversation was deleted elsewhere: the next question begins another, with these turns. */
  #forget() {
    this.id = null;
    for (const turn of this.turns) turn.isStored = false;
    setAddress(null, { replace: true });
  }

  /** Marks the stored version that a turn replaces, and returns it, if there is one. */
  async #markReplaced(turn) {
    const old = turn.versions.slice(0, -1).findLast(({ isStored }) => isStored);
    if (old) await this.#mark(this.id, old, true);
    return old;
  }

  /** Stores what the app has not stored, and undoes or completes the replacement of a version. */
  async #store(turn, ended, marking) {
    const { id } = this;
    if (!id) return;
    const old = await marking;
    if (!turn.hasBegun) {
      if (old) await this.#mark(id, old, false);
      return;
    }
    if (!turn.isStored) await this.#storeOnce(id, turn, ended);
    if (old && this.turns[0] === turn && (await renameFirst(id, old.question, turn.question))) {
      this.handlers.changed();
    }
  }

  /** Stores an answer unless the app has; at once if the page is left before that is known. */
  async #storeOnce(id, turn, ended) {
    const store = () => (storing ??= storePart(id, turn, ended, { keepalive: true }));
    let storing = null;
    this.storeNow = () => store().catch(() => {}); // if the app has it, too, it is there twice
    const isStored = await this.#isStoredByApp(id, turn).finally(() => (this.storeNow = null));
    if (!isStored) await store();
  }

  /** Returns whether the app has stored an answer whose last line was lost or stopped. */
  async #isStoredByApp(id, turn) {
    const newest = await readNewest(id);
    const isVersion = turn.versions.some((each) => each !== turn && each.id === newest?.id);
    const isRepeated = this.turns.at(-2)?.question === turn.question;
    const isSame = newest?.question === turn.question && newest.text.startsWith(turn.view.text);
    if (isVersion || isRepeated || !isSame) return false;
    Object.assign(turn, { id: newest.id, isStored: true });
    return true;
  }

  /** Marks a stored turn as replaced, so that the model no longer gets it, or not. */
  async #mark(id, turn, replaced, options) {
    if (!id || !turn.isStored) return;
    if (!turn.id) {
      const newest = await readNewest(id);
      if (newest?.question !== turn.question) return; // another device has added turns
      turn.id = newest.id;
    }
    const { sources, ended, images } = turn;
    await markTurn(turn.id, { sources, ended, images, replaced }, options);
  }

  /** Ends an answer because another conversation is opened, or the page is left; stores what has come. */
  async #abandon(options) {
    if (!this.controller) return;
    const { id, answering: { turn, marking } } = this;
    this.controller.abort();
    this.controller = null;
    turn.end("stopped");
    if (!id) return;
    const work = turn.hasBegun
      ? storePart(id, turn, "stopped", options)
      : marking.then((old) => old && this.#mark(id, old, false, options));
    await work.catch(() => {}); // offline: the turn is lost
  }

  async #copyAddress(turn) {
    const address = addressOf(this.id, this.turns.indexOf(turn) + 1);
    if (await copyText(address)) showDone(turn.part(".link"), translate("copied"));
  }

  #save() {
    const parts = this.turns.map(({ question, view }) => `## ${question}\n\n${view.text}\n`);
    openFile(new Blob([parts.join("\n")], { type: "text/markdown" }), { name: "chat.md" });
  }

  #showBusy() {
    const busy = this.controller !== null;
    stopButton.hidden = !busy;
    sendButton.hidden = busy;
    saveButton.hidden = !this.turns.length;
    for (const turn of this.turns.slice(-2)) this.#showActions(turn); // those before have lost theirs
  }

  #showActions(turn) {
    const [isLast, busy] = [turn === this.turns.at(-1), this.controller !== null];
    turn.showActions({ isLast, busy, hasAddress: this.id !== null });
  }
}

/** Reads how the answers of a stored conversation were rated; without that they have no buttons. */
async function restoreFeedback(id, turns) {
  const loaded = await import("./feedback.js").catch(() => null);
  await loaded?.restoreFeedback(id, turns);
}

async function storePart(id, turn, ended, options) {
  const { question, view, sources, images } = turn;
  turn.id = await storeTurn(id, { question, text: view.text, sources, ended, images }, options);
  turn.isStored = true;
}

/** Renames a conversation after its new first question, unless a person has named it. Returns whether. */
async function renameFirst(id, question, newQuestion) {
  const [name, newName] = [question, newQuestion].map((each) => each.slice(0, MAX_NAME_LENGTH));
  if (name === newName || (await readName(id)) !== name) return false;
  await renameConversation(id, newName);
  return true;
}
