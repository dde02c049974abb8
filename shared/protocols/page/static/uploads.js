// The documents of the user: a dialog that lists, uploads and deletes them, and begins questions.

import { authHeaders, readFailure, readJson, RequestError, send } from "./client.js";
import { setDraft } from "./composer.js";
import { makeButton, makeElement, makeIconButton, makeItem, setLabel, showNotice } from "./elements.js";
import { explainFailure, showFailure } from "./errors.js";
import { translate } from "./text.js";

const PATH = "/uploads";
const POLL_SECONDS = 1; // while a document is being read
const RETRY_SECONDS = 5;
const MEGABYTE = 2 ** 20;
const STATES = {
  waiting: "uploadWaiting",
  sending: "uploadSending",
  queued: "uploadWaiting",
  reading: "uploadReading",
  ready: "uploadReady",
  failed: "uploadFailed",
};

const dialog = makeElement("dialog", { id: "uploads" });
dialog.setAttribute("aria-labelledby", "uploads-title");
document.head.append(makeElement("link", { rel: "stylesheet", href: "/page/uploads.css" }));
document.body.append(dialog);
let parts = null; // the elements of the dialog: `list`, `empty`, `error`, `status`, `add`
let rows = new Map(); // the rows by the id of their document
let stored = []; // the documents that the app has, as it describes them
let files = []; // those that are not sent yet, in the same form, with `file`
const deleted = new Set(); // the ids of documents that an answer under way may still have
let maxBytes = Infinity; // of a file
let [isSending, count, timer] = [false, 0, 0];

/** Opens the dialog, and uploads files. */
export function showUploads(added = []) {
  if (!dialog.open) {
    draw();
    dialog.showModal();
  }
  addFiles(added);
  return refresh();
}

/** Draws the dialog in the language of the page. */
function draw() {
  const title = makeElement("h2", { id: "uploads-title", textContent: translate("uploads") });
  const hint = makeElement("p", { textContent: translate("uploadsHint") });
  const chooser = makeElement("input", { type: "file", multiple: true, hidden: true });
  chooser.addEventListener("change", () => {
    addFiles([...chooser.files]);
    chooser.value = "";
  });
  const add = makeButton({ className: "primary", textContent: translate("addDocuments") }, () =>
    chooser.click(),
  );
  const close = makeButton({ textContent: translate("close") }, () => dialog.close());
  const actions = makeElement("div", { className: "actions" });
  actions.append(close, add);
  const list = makeElement("ul");
  const empty = makeElement("p", { textContent: translate("noUploads"), hidden: true });
  const error = makeElement("p", { className: "error", role: "alert", hidden: true });
  const status = makeElement("p", { className: "hidden", role: "status" });
  parts = { list, empty, error, status, add };
  rows = new Map();
  dialog.replaceChildren(title, hint, list, empty, error, status, chooser, actions);
  drawList();
}

function drawList() {
  const documents = [...stored, ...files];
  const isKnown = maxBytes < Infinity && parts.error.hidden; // the list was read
  parts.empty.hidden = documents.length > 0 || !isKnown;
  const drawn = documents.map((each) => {
    if (!rows.has(each.id)) rows.set(each.id, makeRow(each.id));
    drawState(rows.get(each.id), each);
    return rows.get(each.id).element;
  });
  const isChanged = drawn.length !== parts.list.children.length || drawn.some((each) => !each.isConnected);
  if (!isChanged) return;
  const focused = document.activeElement;
  parts.list.replaceChildren(...drawn);
  if (parts.list.contains(focused)) focused.focus();
}

function makeRow(id) {
  const [name, state] = [makeElement("bdi"), makeElement("small")];
  const text = makeElement("div");
  text.append(name, state);
  const ask = makeButton({ className: "quiet", textContent: translate("askUpload") }, () =>
    askAbout(name.textContent),
  );
  const button = makeIconButton("delete", "", () => remove(id, button));
  return { element: makeItem(text, ask, button), name, state, ask, button, drawn: "" };
}

/** Draws a row if it has changed: a screen reader would begin again. */
function drawState(row, { filename, state, reason = "", percent = 0 }) {
  const sentence = sentenceOf(state, percent);
  if (row.drawn === sentence + reason) return;
  row.drawn = sentence + reason;
  row.name.textContent = filename;
  row.ask.hidden = state !== "ready";
  setLabel(row.ask, `${translate("askUpload")}: ${filename}`);
  setLabel(row.button, translate("deleteUpload", { name: filename }));
  row.state.classList.toggle("failed", reason !== "");
  const detail = makeElement("bdi", { textContent: reason });
  if (state === "failed") detail.lang = "en"; // the app's own sentence
  row.state.replaceChildren(sentence, " ", detail);
}

/** Returns the sentence about a state; a file that is not sent has a reason alone. */
const sentenceOf = (state, percent) => (STATES[state] ? translate(STATES[state], { percent }) : "");

/** Goes back to the question that is being written, and names a document at its end. */
function askAbout(filename) {
  dialog.close(); // it gives the focus back to the button that opened it
  const question = document.querySelector("#question");
  const text = question.value;
  setDraft(`${text}${/\S$/.test(text) ? " " : ""}${filename} `);
  question.focus();
}

/** Adds files to those that are sent, one after the other. */
function addFiles(added) {
  for (const file of added) {
    count += 1;
    files.push({ id: `file-${count}`, filename: file.name, state: "waiting", file });
  }
  drawList();
  if (!isSending) sendAll();
}

async function sendAll() {
  isSending = true;
  for (let next = nextFile(); next; next = nextFile()) {
    next.state = "sending";
    drawList();
    const reason = await sendOne(next).catch(explain);
    if (reason) {
      Object.assign(next, { state: "notSent", reason });
      announce([next]);
    } else {
      files = files.filter((each) => each !== next);
    }
    await refresh();
  }
  isSending = false;
}

const nextFile = () => files.find(({ state }) => state === "waiting");

const explain = (failure) => failure.message || explainFailure(failure);

/** Sends a file. Returns why the page does not send it, "" if it did. Throws RequestError. */
async function sendOne(next) {
  if (next.file.size > maxBytes) {
    return translate("uploadTooLarge", { megabytes: Math.floor(maxBytes / MEGABYTE) });
  }
  const isReadable = await next.file.slice(0, 1).arrayBuffer().then(() => true, () => false);
  if (!isReadable) return translate("uploadUnreadable"); // a folder, or moved since
  await post(next);
  return "";
}

async function post(next) {
  const request = new XMLHttpRequest(); // `fetch` does not tell how much is sent
  const form = new FormData();
  form.append("file", next.file);
  request.open("POST", "/upload");
  const headers = { ...authHeaders(), Prefer: "respond-async" };
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    next.percent = Math.floor((100 * loaded) / total);
    drawList();
  });
  next.abort = () => request.abort();
  await new Promise((resolve, reject) => {
    for (const end of ["load", "abort"]) request.addEventListener(end, resolve);
    request.addEventListener("error", () => reject(new RequestError("offline")));
    request.send(form);
  });
  // An aborted request has the status 0; after a 422 the list says what is wrong with the file.
  if (request.status >= 300 && request.status !== 422) throw await readFailure(asResponse(request));
}

function asResponse(request) {
  const retryAfter = request.getResponseHeader("retry-after");
  const headers = retryAfter ? { "retry-after": retryAfter } : {};
  return new Response(request.responseText, { status: request.status, headers });
}

/** Reads what the app has, again until each document is read. */
async function refresh() {
  clearTimeout(timer);
  let seconds = 0;
  try {
    const before = new Map(stored.map((each) => [each.id, each.state]));
    const answer = await readJson(PATH);
    stored = answer.uploads.filter(({ id }) => !deleted.has(id));
    maxBytes = answer.max_bytes;
    parts.error.hidden = true;
    const done = stored.filter((each) => !isUnread(each));
    announce(done.filter(({ id }) => isUnread({ state: before.get(id) })));
    if (stored.some(isUnread)) seconds = POLL_SECONDS;
  } catch (failure) {
    if (!(failure instanceof RequestError)) throw failure;
    showFailure(parts.error, failure);
    seconds = failure.seconds || RETRY_SECONDS;
  }
  drawList();
  clearTimeout(timer); // another one ran meanwhile
  if (seconds && (dialog.open || stored.some(isUnread))) timer = setTimeout(refresh, seconds * 1000);
}

const isUnread = ({ state }) => state === "queued" || state === "reading";

/** Says what became of documents: in the dialog to a screen reader, and else in a notice. */
function announce(documents) {
  const sentences = documents.map(
    ({ filename, state, reason = "" }) => `${filename}: ${sentenceOf(state)} ${reason}`,
  );
  if (!sentences.length) return;
  if (dialog.open) parts.status.textContent = sentences.join(" ");
  else showNotice(sentences.join(" "));
}

/** Deletes a document, or a file that is not sent. */
async function remove(id, button) {
  const place = [...parts.list.children].indexOf(rows.get(id).element);
  const file = files.find((each) => each.id === id);
  if (!file && !(await removeStored(id, button))) return;
  file?.abort?.();
  files = files.filter((each) => each.id !== id);
  stored = stored.filter((each) => each.id !== id);
  drawList();
  (parts.list.children[place]?.querySelector(".icon") ?? parts.add).focus();
}

/** Deletes a document. Returns whether it is gone. */
async function removeStored(id, button) {
  button.disabled = true;
  try {
    await send(`${PATH}/${id}`, { method: "DELETE" });
    parts.error.hidden = true;
  } catch (failure) {
    if (!(failure instanceof RequestError)) throw failure;
    if (failure.status !== 404) {
      showFailure(parts.error, failure);
      return false;
    }
    // It is replaced, or deleted elsewhere.
  } finally {
    button.disabled = false;
  }
  deleted.add(id);
  return true;
}
