// The turns of the conversation: sends questions, shows answers and errors.

import { AnswerView } from "./answer.js";
import {
  deleteConversation, isReplaced, markReplaced, RequestError, streamAnswer,
} from "./client.js";
import { makeButton, makeElement, makeItem } from "./elements.js";
import { showSource } from "./source.js";
import { fillIn, translate } from "./text.js";

const list = document.querySelector("#turns");
const template = document.querySelector("#turn");
const announcer = document.querySelector("#announcer");
const [sendButton, stopButton] = ["#send", "#stop"].map((id) => document.querySelector(id));
const SENTENCE_END = /[.!?\u061f\u06d4](?=\s)|[\u3002\n]/gu;

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
      setSources(turn, passagesOf(storedLines(info)));
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
    part(".copy").addEventListener("click", () => copy(turn));
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
      for await (const line of streamAnswer(this.#request(turn), turn.image, this.controller.signal)) {
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
      setSources(turn, passagesOf(context.data_points.text));
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
    turn.part(".error").hidden = false;
    turn.part(".error").textContent = explain(failure);
    if (failure.kind === "busy") countDown(turn.part(".error"), failure);
    this.handlers.failed(failure, () => this.#repeat(turn));
  }

  #finish(turn) {
    turn.view.end();
    announce(turn, true);
    showCitations(turn);
    showThoughts(turn);
    showFollowups(turn, (question) => this.ask(question));
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

function setSources(turn, passages) {
  turn.passages = passages;
  turn.view.setCitations([...passages.keys()]);
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

/** Tells a screen reader each sentence when it is complete. */
function announce(turn, ended = false) {
  const { text } = turn.view;
  SENTENCE_END.lastIndex = Math.max(0, turn.scanned - 1); // its end may come with the next text
  let end = turn.announced;
  while (SENTENCE_END.test(text)) end = SENTENCE_END.lastIndex;
  turn.scanned = text.length;
  if (ended) end = text.length;
  const complete = text.slice(turn.announced, end);
  turn.announced = end;
  if (complete.trim()) announcer.textContent = complete.replace(/\[[^\]\n]{1,500}\]|[*_`#]/g, "");
}

/** Returns the passages by their citation; those of one citation are joined. */
function passagesOf(lines) {
  const passages = new Map();
  for (const [citation, text] of lines.map(split)) {
    const earlier = passages.get(citation);
    passages.set(citation, earlier ? `${earlier}\n\n${text}` : text);
  }
  return passages;
}

/** Returns the lines that the app stores with an answer; another client may store anything. */
function storedLines(info) {
  try {
    const lines = JSON.parse(info);
    return Array.isArray(lines) ? lines.map(String) : [];
  } catch {
    return [];
  }
}

/** Splits `sourcepage: content`. */
function split(line) {
  const place = line.indexOf(": ");
  return [line.slice(0, place), line.slice(place + 2)];
}

function explain({ kind, message, status, seconds }) {
  const known = {
    offline: "errorOffline",
    interrupted: "errorInterrupted",
    busy: "errorBusy",
    "sign-in": "errorSignIn",
    key: "keyTitle",
    server: "errorServer",
  };
  const sentence = translate(known[kind], { status, seconds });
  return message ? `${sentence} (${message})` : sentence;
}

function countDown(element, failure) {
  let { seconds } = failure;
  const timer = setInterval(() => {
    seconds -= 1;
    if (seconds <= 0 || !element.isConnected) clearInterval(timer);
    element.textContent = explain({ ...failure, seconds: Math.max(0, seconds) });
  }, 1000);
}

async function copy(turn) {
  await navigator.clipboard.writeText(turn.view.text);
  turn.part(".copy").textContent = translate("copied");
  setTimeout(() => (turn.part(".copy").textContent = translate("copy")), 2000);
}

function openCitation(event, turn) {
  const link = event.target.closest("a.citation");
  if (!link) return;
  event.preventDefault();
  const { textContent: number } = link;
  // The link is drawn again while the answer grows.
  const links = () => [...turn.element.querySelectorAll("a.citation")];
  const opener = () => links().find(({ textContent }) => textContent === number);
  openSource(turn, turn.view.used[number - 1], opener);
}

function openSource(turn, citation, opener) {
  showSource(citation, turn.passages.get(citation) ?? "", turn.view.text, opener);
}

function showCitations(turn) {
  const items = turn.view.used.map((citation) => {
    const open = () => openSource(turn, citation, () => button);
    const button = makeButton({ className: "quiet" }, open);
    button.append(makeElement("bdi", { textContent: readableName(citation) }));
    return makeItem(button);
  });
  turn.part(".citations").replaceChildren(...items);
  turn.part(".citations").hidden = !items.length;
}

function readableName(citation) {
  try {
    return decodeURIComponent(citation);
  } catch {
    return citation;
  }
}

function showThoughts(turn) {
  const thoughts = turn.thoughts ?? [];
  turn.part(".thoughts").hidden = !thoughts.length;
  for (const { title, description, props } of thoughts) {
    const step = document.createElement("details");
    step.append(makeElement("summary", { textContent: title }));
    if (props) step.append(makeElement("p", { textContent: JSON.stringify(props) }));
    const text = typeof description === "string" ? description : JSON.stringify(description, null, 2);
    step.append(makeElement("pre", { textContent: text }));
    turn.part(".thoughts").append(step);
  }
}

function showFollowups(turn, ask) {
  const items = (turn.followups ?? []).map((question) =>
    makeItem(makeButton({ textContent: question, dir: "auto" }, () => ask(question))),
  );
  turn.part(".followups").replaceChildren(...items);
}
