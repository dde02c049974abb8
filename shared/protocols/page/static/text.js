// The words of the page, in the language of the browser or the one that a person has chosen.

import { setLabel } from "./elements.js";
import { readPreference } from "./preferences.js";

export const LANGUAGES = { en: "English", de: "Deutsch", ar: "العربية" };
const RIGHT_TO_LEFT = ["ar"];

let sentences = {};

/** Loads the language, and fills in the page's words. */
export async function loadLanguage() {
  const wanted = navigator.languages.map((tag) => tag.split("-")[0]);
  const names = [readPreference("language"), ...wanted, "en"];
  let language = names.find((tag) => Object.hasOwn(LANGUAGES, tag));
  sentences = await readSentences(language).catch(() => readSentences((language = "en")))
    .catch(() => ({}));
  document.documentElement.lang = language;
  document.documentElement.dir = RIGHT_TO_LEFT.includes(language) ? "rtl" : "ltr";
  fillIn(document);
  fillIn(document.querySelector("#turn").content);
}

async function readSentences(language) {
  const response = await fetch(`/page/languages/${language}.json`);
  if (!response.ok) throw new Error(`${response.url}: ${response.status}`);
  return response.json();
}

/** Returns a sentence, or without one its name in words; `{name}` in it is replaced with `values.name`. */
export function translate(name, values = {}) {
  const sentence = sentences[name] ?? name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return sentence.replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
}

/** Returns whether there is a sentence of this name. */
export const hasSentence = (name) => name in sentences;

/** Fills in the words of all elements below `root` that name one. */
function fillIn(root) {
  for (const element of root.querySelectorAll("[data-text]")) {
    element.textContent = translate(element.dataset.text);
  }
  for (const element of root.querySelectorAll("[data-placeholder]")) {
    element.placeholder = translate(element.dataset.placeholder);
  }
  for (const element of root.querySelectorAll("[data-label]")) {
    setLabel(element, translate(element.dataset.label));
  }
}
