// The panel with a cited passage.

import { markQuotes } from "./answer.js";
import { documentPath, hasRoute, openDocument, ROUTES } from "./client.js";
import { makeElement } from "./elements.js";

const panel = document.querySelector("#source");
const link = document.querySelector("#open-document");
let findOpener = () => null;
let shown = "";

/** Shows a passage, with what the answer quotes marked; `opener()` gets the focus back. */
export function showSource(citation, passage, answer, opener) {
  [findOpener, shown] = [opener, citation];
  panel.querySelector("h2").textContent = citation; // as it stands in the answer
  link.href = documentPath(citation);
  link.hidden = !hasRoute(ROUTES.documents);
  panel.querySelector("blockquote").replaceChildren(
    ...markQuotes(passage, answer).map(([text, isQuoted]) =>
      isQuoted ? makeElement("mark", { textContent: text }) : text,
    ),
  );
  panel.hidden = false;
  panel.querySelector(".close").focus();
}

function close() {
  panel.hidden = true;
  findOpener()?.focus();
}

link.addEventListener("click", (event) => {
  event.preventDefault();
  openDocument(shown);
});
panel.querySelector(".close").addEventListener("click", close);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !panel.hidden) close();
});
