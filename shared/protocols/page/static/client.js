// Requests to the app, by its public protocols.

import { openFile } from "./elements.js";
import { readForTab, storeForTab } from "./preferences.js";

const KEY_NAME = "x-functions-key";
const MAX_KEPT_ALIVE = 60_000; // bytes of a body: browsers allow 64 KiB of all
const PRINTABLE = /^[\x21-\x7e]+$/; // what a header can carry

/** What the page can do without: a deployment may lack these routes. */
export const ROUTES = {
  conversations: "/_plugins/_ml/memory",
  documents: "/content/{path}",
  ratings: "/feedback",
};
let routes = new Set();

export const hasRoute = (path) => routes.has(path);

/** A failed request: `kind` is "offline", "interrupted", "busy", "key", "sign-in" or "server". */
export class RequestError extends Error {
  constructor(kind, { message = "", status = 0, seconds = 0 } = {}) {
    super(message);
    Object.assign(this, { kind, status, seconds });
  }
}

/** Keeps the function key for this tab; it never stands in an address. Returns whether it can be one. */
export function setKey(key) {
  if (PRINTABLE.test(key)) storeForTab(KEY_NAME, key);
  return PRINTABLE.test(key);
}

/** Returns the key of this tab, or null. */
export function readKey() {
  const key = readForTab(KEY_NAME);
  return PRINTABLE.test(key ?? "") ? key : null;
}

/** Returns the headers of each request. */
export function authHeaders() {
  const key = readKey();
  return key ? { [KEY_NAME]: key } : {};
}

/** Sends a request. Throws RequestError. */
export async function send(path, options = {}) {
  const headers = { ...options.headers, ...authHeaders() };
  const response = await fetch(path, { ...options, headers }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new RequestError("offline");
  });
  if (!response.ok) throw await readFailure(response);
  return response;
}

/** Returns the error of a response that is one. */
export async function readFailure(response) {
  const { status } = response;
  const body = await response.json().catch(() => ({}));
  const message = typeof body.error === "string" ? body.error : (body.error?.reason ?? "");
  if (status === 401) {
    const signsIn = (await readSetup()).platformSignIn;
    return new RequestError(signsIn ? "sign-in" : "key", { message, status });
  }
  const seconds = retryAfter(response.headers.get("retry-after"));
  if (status === 429) return new RequestError("busy", { message, status, seconds });
  return new RequestError("server", { message, status, seconds });
}

function retryAfter(value) {
  if (!value) return 0;
  const seconds = Number(value);
  const wait = Number.isNaN(seconds) ? (Date.parse(value) - Date.now()) / 1000 : seconds;
  return Math.max(0, Math.ceil(wait)) || 0;
}

/** Sends a request, and returns the JSON of its response. Throws RequestError. */
export async function readJson(path, options) {
  return (await send(path, options)).json();
}

/** Sends JSON, and returns the JSON of the response. Throws RequestError. */
export function writeJson(path, method, value, { keepalive = false } = {}) {
  const request = json(method, value);
  // A browser refuses to keep a longer request alive after the page is left.
  const isShort = new Blob([request.body]).size <= MAX_KEPT_ALIVE;
  return readJson(path, { ...request, keepalive: keepalive && isShort });
}

/** Returns the options of a request that sends JSON. */
export function json(method, value) {
  return { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) };
}

/** Returns what the app can do, and remembers its routes. */
export async function readConfig() {
  const config = await readJson("/config");
  routes = new Set(config.routes);
  return config;
}

export const readSetup = () => fetch("/auth_setup").then((response) => response.json(), () => ({}));

/**
 * Yields the JSON lines of an answer; `begin` gets the id of the request before. Throws
 * RequestError, also after a part of the answer.
 */
export async function* streamAnswer(request, image, signal, begin) {
  const response = await send("/chat/stream", { signal, ...post(request, image) });
  begin(response.headers.get("x-request-id"));
  let finished = false;
  for await (const line of jsonLines(response.body)) {
    if (line.error) throw new RequestError("interrupted", { message: line.error });
    finished ||= Boolean(line.context?.finish_reason);
    yield line;
  }
  if (!finished) throw new RequestError("interrupted");
}

function post(request, image) {
  if (!image) return json("POST", request);
  const form = new FormData();
  form.append("json", new Blob([JSON.stringify(request)], { type: "application/json" }));
  form.append(`messages[${request.messages.length - 1}].files[0]`, image);
  return { method: "POST", body: form };
}

async function* jsonLines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = ""; // a chunk may end inside a line
  while (true) {
    const { done, value } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new RequestError("interrupted");
    });
    if (done) return;
    const lines = (buffer + value).split("\n");
    buffer = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

const SHOWN = /^(application\/pdf|image\/(png|jpeg|gif|webp|bmp)|text\/(plain|markdown|csv))/;

export const documentPath = (citation) => `/content/${citation}`;

/** Opens a document. A link cannot send the key: the file is fetched with it and shown as a blob. */
export async function openDocument(citation) {
  if (!readKey()) return window.open(documentPath(citation), "_blank", "noopener");
  const [path, place] = citation.split("#");
  const file = await (await send(documentPath(path))).blob();
  if (SHOWN.test(file.type)) return openFile(file, { place });
  const unknown = new Blob([file], { type: "application/octet-stream" });
  return openFile(unknown, { name: decodeURIComponent(path.split("/").at(-1)) });
}
