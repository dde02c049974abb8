// What went wrong, in a sentence that says what to do.

import { countDown, makeElement } from "./elements.js";
import { hasSentence, translate } from "./text.js";

const SENTENCES = {
  offline: "errorOffline",
  interrupted: "errorInterrupted",
  "sign-in": "errorSignIn",
  key: "keyTitle",
  server: "errorServer",
};

/** Shows a failed request in an element; the seconds to wait count down. */
export function showFailure(element, failure) {
  const sentence = makeElement("span", { textContent: explain(failure, failure.seconds) });
  if (failure.kind === "busy" && failure.seconds) {
    countDown(sentence, failure.seconds, (seconds) => explain(failure, seconds));
  }
  element.replaceChildren(sentence);
  if (failure.message) element.append(" ", makeDetail(failure.message));
  element.hidden = false;
}

/** The app's own sentences are in English; the usual ones have translations. */
function makeDetail(message) {
  const isKnown = hasSentence(message);
  const language = isKnown ? {} : { lang: "en", dir: "ltr" };
  return makeElement("span", { ...language, textContent: `(${isKnown ? translate(message) : message})` });
}

function explain({ kind, status }, seconds) {
  if (kind === "busy") return translate(seconds > 0 ? "errorBusy" : "errorBusyNow", { seconds });
  return translate(SENTENCES[kind] ?? "errorServer", { status });
}

/** Returns the sentence about a failed request, in one line. */
export function explainFailure(failure) {
  const sentence = explain(failure, failure.seconds ?? 0);
  return failure.message ? `${sentence} ${makeDetail(failure.message).textContent}` : sentence;
}
