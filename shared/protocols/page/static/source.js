// The panel with a cited passage.

import { markQuotes } from "./answer.js";
import { documentPath, hasRoute, openDocument, RequestError, ROUTES } from "./client.js";
import { makeElement, showNotice } from "./elements.js";
import { explainFailure } from "./errors.js";

const panel = document.querySelector("#source");
const link = document.querySelector("#open-document");
const [previous, next] = [".previous", ".next"].map((selector) => panel.querySelector(selector));
let shown = null;

/**
 * Shows the passage of a citation, with what the answer quotes marked.
 *
 * `citations` are those of the answer, `place` is that of this one, `passages` has their texts;
 * `opener()` gets the focus back.
 */
export function showSource(source) {
  shown = source;
  show();
  panel.hidden = false;
  panel.querySelector(".close").focus();
}

function show() {
  const { citations, place, passages, answer } = shown;
  const citation = citations[place];
  panel.querySelector("h2 bdi").textContent = readableName(citation);
  link.href = documentPath(citation);
  link.hidden = !hasRoute(ROUTES.documents);
  previous.hidden = next.hidden = citations.length < 2;
  [previous.disabled, next.disabled] = [place === 0, place === citations.length - 1];
  const passage = markQuotes(passages.get(citation) ?? "", answer).map(([text, isQuoted]) =>
    isQuoted ? makeElement("mark", { textContent: text }) : text,
  );
  panel.querySelector("blockquote").replaceChildren(...passage);
}

function step(by, button) {
  shown.place += by;
  show();
  if (button.disabled) (by < 0 ? next : previous).focus();
}

/** Closes the panel; the focus goes back to what opened it, if that is still there. */
export function closeSource() {
  if (panel.hidden) return;
  panel.hidden = true;
  shown.opener()?.focus();
}

/** Returns a citation without the escapes of addresses. */
export function readableName(citation) {
  try {
    return decodeURIComponent(citation);
  } catch {
    return citation;
  }
}

link.addEventListener("click", async (event) => {
  event.preventDefault();
  try {
    await openDocument(shown.citations[shown.place]);
  } catch (failure) {
    if (!(failure instanceof RequestError)) throw failure;
    showNotice(explainFailure(failure));
  }
});
previous.addEventListener("click", () => step(-1, previous));
next.addEventListener("click", () => step(1, next));
panel.querySelector(".close").addEventListener("click", closeSource);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) closeSource();
});
