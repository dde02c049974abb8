// The words of the page, in the browser's language.

const LANGUAGES = ["en", "de", "ar"];
const RIGHT_TO_LEFT = ["ar"];

let sentences = {};

/** Loads the first of the browser's languages that there is, and fills in the page's words. */
export async function loadLanguage() {
  const wanted = navigator.languages.map((tag) => tag.split("-")[0]);
  const language = wanted.find((tag) => LANGUAGES.includes(tag)) ?? LANGUAGES[0];
  sentences = await fetch(`/page/languages/${language}.json`).then((response) => response.json());
  document.documentElement.lang = language;
  document.documentElement.dir = RIGHT_TO_LEFT.includes(language) ? "rtl" : "ltr";
  document.title = translate("title");
  fillIn(document);
}

/** Returns a sentence; `{name}` in it is replaced with `values.name`. */
export function translate(name, values = {}) {
  const sentence = sentences[name] ?? name;
  return sentence.replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
}

/** Fills in the words of all elements below `root` that name one. */
export function fillIn(root) {
  for (const element of root.querySelectorAll("[data-text]")) {
    element.textContent = translate(element.dataset.text);
  }
  for (const element of root.querySelectorAll("[data-placeholder]")) {
    element.placeholder = translate(element.dataset.placeholder);
  }
}
