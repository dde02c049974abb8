// The turns of the conversation: sends questions, shows answers and errors.

import { AnswerView } from "./answer.js";
import {
  deleteConversation, isReplaced, markReplaced, RequestError, streamAnswer,
} from "./client.js";
import { fillIn, translate } from "./text.js";
import {
  announce, copyAnswer, openCitation, setSources, showFailure, showRest, storedLines,
} from "./turn.js";

const list = document.querySelector("#turns");
const template = document.querySelector("#turn");
const [sendButton, stopButton] = ["#send", "#stop"].map((id) => document.querySelector(id));

export class Chat {
  /** `options` returns the overrides; `handlers` react to `editing` and `failed(kind, retry)`. */
  constructor(remembers, options, handlers) {
    Object.assign(this, { remembers, options, handlers, turns: [], state: null, controller: null });
    this.#showBusy();
    stopButton.addEventListener("click", () => this.controller?.abort());
  }

  /** Begins another conversation, or shows a stored one. */
  open(id = null, storedTurns = []) {
    this.controller?.abort();
    Object.assign(this, { turns: [], state: this.remembers ? { conversation_id: id } : null });
    // The questions of stored turns that the next one replaces, and whether one was replaced before.
    Object.assign(this, { replaced: [], hasReplaced: storedTurns.some(isReplaced) });
    list.replaceChildren();
    for (const { input, response, additional_info: info } of storedTurns) {
      if (isReplaced({ additional_info: info })) continue;
      const turn = this.#addTurn(input);
      turn.isStored = true;
      setSources(turn, storedLines(info));
      turn.view.append(response);
      this.#finish(turn);
    }
    document.querySelector("#welcome").hidden = storedTurns.length > 0;
    if (storedTurns.length) scrollToEnd();
  }

  async ask(question, image = null) {
    document.querySelector("#welcome").hidden = true;
    await this.#answer(this.#addTurn(question, image));
  }

  /** Removes the last turn and returns it, so that its question can be edited. */
  takeLast() {
    const turn = this.turns.pop();
    turn.element.remove();
    if (turn.isStored) this.replaced.push(turn.question);
    this.#showLastActions();
    return turn;
  }

  #addTurn(question, image = null) {
    const element = template.content.cloneNode(true).firstElementChild;
    fillIn(element);
    const part = (selector) => element.querySelector(selector);
    part(".question p").textContent = question;
    if (image) {
      part(".question img").src = URL.createObjectURL(image);
      part(".question img").hidden = false;
    }
    const label = (number, name) => translate("citation", { number, name });
    const view = new AnswerView(part(".text"), label, keepEndInView);
    const turn = { element, question, image, view, part, passages: new Map(), announced: 0, scanned: 0 };
    part(".edit").addEventListener("click", () => this.handlers.editing(this.takeLast()));
    part(".retry").addEventListener("click", () => this.#repeat(turn));
    part(".copy").addEventListener("click", () => copyAnswer(turn));
    part(".text").addEventListener("click", (event) => openCitation(event, turn));
    list.append(element);
    this.turns.push(turn);
    this.#showLastActions();
    return turn;
  }

  #repeat(turn) {
    this.takeLast();
    return this.ask(turn.question, turn.image);
  }

  #request(turn) {
    const overrides = this.options();
    const context = Object.keys(overrides).length ? { overrides } : {};
    // The app reads the history of a stored conversation, but does not know what was replaced.
    const readsHistory = this.state?.conversation_id && !this.hasReplaced && !this.replaced.length;
    const earlier = readsHistory ? [] : this.turns.filter((each) => each !== turn && each.view.text);
    const messages = earlier.flatMap(({ question, view }) => [
      { role: "user", content: question },
      { role: "assistant", content: view.text },
    ]);
    messages.push({ role: "user", content: turn.question });
    const beginsAgain = this.replaced.length && this.turns.length === 1;
    return { messages, context, sessionState: beginsAgain ? { conversation_id: null } : this.state };
  }

  /** Removes what the newest turn replaces from the store. `before` is the state before it. */
  async #removeReplaced(before) {
    const { replaced, state } = this;
    if (!replaced.length) return;
    this.replaced = [];
    if (state.conversation_id === before.conversation_id) {
      this.hasReplaced = true;
      await markReplaced(state.conversation_id, replaced);
    } else {
      await deleteConversation(before.conversation_id);
    }
  }

  async #answer(turn) {
    this.controller = new AbortController();
    this.#showBusy();
    const { state } = this;
    const status = turn.part(".status");
    status.textContent = translate("searching");
    scrollToEnd();
    try {
      const begin = (id) => (turn.requestId = id);
      const { signal } = this.controller;
      for await (const line of streamAnswer(this.#request(turn), turn.image, signal, begin)) {
        this.#receive(turn, line);
      }
      status.textContent = "";
      turn.isStored = Boolean(this.state?.conversation_id);
      // Without success both turns are shown when the conversation is opened again.
      await this.#removeReplaced(state).catch(() => {});
    } catch (error) {
      const stopped = error.name === "AbortError";
      status.textContent = stopped ? translate("stopped") : "";
      if (!stopped) keepEndInView(() => this.#fail(turn, error));
      if (this.replaced.length) this.state = state;
    }
    this.controller = null;
    keepEndInView(() => {
      this.#finish(turn);
      this.#showBusy();
    });
  }

  #receive(turn, { delta, context = {}, sessionState }) {
    if (context.data_points) {
      setSources(turn, context.data_points.text);
      turn.thoughts = context.thoughts;
      if (this.remembers && sessionState?.conversation_id) this.state = sessionState;
    }
    turn.followups = context.followup_questions ?? turn.followups;
    if (delta?.content) {
      turn.part(".status").textContent = "";
      turn.view.append(delta.content);
      announce(turn);
    }
  }

  #fail(turn, error) {
    const failure = error instanceof RequestError ? error : new RequestError("interrupted");
    showFailure(turn, failure);
    this.handlers.failed(failure, () => this.#repeat(turn));
  }

  #finish(turn) {
    turn.view.end();
    announce(turn, true);
    showRest(turn, (question) => this.ask(question));
  }

  #showLastActions() {
    const busy = this.controller !== null;
    for (const turn of this.turns.slice(-2)) { // the turns before have lost theirs already
      const isLast = turn === this.turns.at(-1);
      turn.part(".edit").hidden = turn.part(".retry").hidden = !isLast || busy;
      turn.part(".answer .actions").hidden = isLast && busy;
      turn.part(".followups").hidden = !isLast;
    }
  }

  #showBusy() {
    const busy = this.controller !== null;
    stopButton.hidden = !busy;
    sendButton.hidden = busy;
    this.#showLastActions();
  }
}

/** Lets the page grow; scrolls to its new end, unless the reader has scrolled away from the old one. */
function keepEndInView(grow) {
  const { scrollTop, clientHeight, scrollHeight } = document.documentElement;
  grow();
  if (scrollTop + clientHeight > scrollHeight - 80) scrollToEnd();
}

function scrollToEnd() {
  scrollTo({ top: document.body.scrollHeight });
}
