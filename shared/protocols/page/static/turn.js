// The parts of a turn: sources, thoughts, errors, follow-up questions.

import { hasRoute, ROUTES, sendRating } from "./client.js";
import { makeButton, makeElement, makeItem } from "./elements.js";
import { showSource } from "./source.js";
import { translate } from "./text.js";

const announcer = document.querySelector("#announcer");
const SENTENCE_END = /[.!?\u061f\u06d4](?=\s)|[\u3002\n]/gu;

/** Sets the passages that the answer can cite, from lines `sourcepage: content`. */
export function setSources(turn, lines) {
  turn.passages = passagesOf(lines);
  turn.view.setCitations([...turn.passages.keys()]);
}

/** Tells a screen reader each sentence when it is complete. */
export function announce(turn, ended = false) {
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
export function storedLines(info) {
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

/** Shows what happened and what to do. */
export function showFailure(turn, failure) {
  const element = turn.part(".error");
  element.hidden = false;
  element.textContent = explain(failure);
  if (failure.kind === "busy") countDown(element, failure);
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

export async function copyAnswer(turn) {
  await navigator.clipboard.writeText(turn.view.text);
  turn.part(".copy").textContent = translate("copied");
  setTimeout(() => (turn.part(".copy").textContent = translate("copy")), 2000);
}

/** Lets the reader rate an answer; one of a stored conversation has no id of its request. */
function showRatings(turn) {
  const buttons = [...turn.element.querySelectorAll(".rate")];
  for (const button of buttons) {
    button.hidden = !turn.requestId || !hasRoute(ROUTES.ratings);
    button.addEventListener("click", () => rate(turn, button, buttons));
  }
}

async function rate(turn, pressed, buttons) {
  try {
    await sendRating(turn.requestId, pressed.dataset.rating);
  } catch (failure) {
    showFailure(turn, failure);
    return;
  }
  for (const button of buttons) button.setAttribute("aria-pressed", button === pressed);
}

/** Opens the source of a clicked link in the answer. */
export function openCitation(event, turn) {
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

/** Shows what belongs below an answer; `ask` gets a follow-up question. */
export function showRest(turn, ask) {
  showCitations(turn);
  showThoughts(turn);
  showFollowups(turn, ask);
  showRatings(turn);
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
