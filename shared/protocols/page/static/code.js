// Blocks of code in an answer: the name of the language, a button to copy, colours.

import { copyText } from "./clipboard.js";
import { makeButton, makeElement } from "./elements.js";
import { translate } from "./text.js";
import DOMPurify from "./vendor/purify.js";

// The languages with colours: the name of the file, the name to show, other names in Markdown.
const LANGUAGES = [
  ["bash", "Bash", "sh", "shell", "zsh", "console"],
  ["cpp", "C++", "c++", "cc", "hpp"],
  ["cpp", "C", "c", "h"],
  ["csharp", "C#", "cs", "c#"],
  ["css", "CSS"],
  ["go", "Go", "golang"],
  ["java", "Java"],
  ["javascript", "JavaScript", "js", "jsx", "mjs"],
  ["json", "JSON", "jsonc", "json5"],
  ["powershell", "PowerShell", "ps1", "pwsh"],
  ["python", "Python", "py", "python3"],
  ["sql", "SQL"],
  ["typescript", "TypeScript", "ts", "tsx"],
  ["xml", "HTML", "html", "xhtml"],
  ["xml", "XML", "svg"],
  ["yaml", "YAML", "yml"],
];
const MAX_LENGTH = 30_000; // characters of a block with colours
const COLOURS = { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true };

/** Adds a header to each block, and colours to those that cannot grow any more. */
export function showCode(codes, areComplete) {
  for (const { element, kind, language } of codes) {
    if (kind !== "block") continue;
    const name = /^[^\s{,:]*/.exec(language)[0];
    const known = LANGUAGES.find((names) => [names[0], ...names.slice(2)].includes(name.toLowerCase()));
    addHeader(element, known?.[1] ?? name.slice(0, 40));
    if (areComplete && known && element.textContent.length <= MAX_LENGTH) highlight(element, known[0]);
  }
}

function addHeader(element, name) {
  const pre = element.parentElement;
  const box = makeElement("div", { className: "code" });
  const header = makeElement("div", { className: "code-header" });
  const button = makeButton({ className: "quiet", textContent: translate("copyCode") }, () =>
    copy(element, button),
  );
  header.append(makeElement("span", { textContent: name }), button);
  pre.replaceWith(box);
  box.append(header, pre);
}

async function copy(element, button) {
  if (!(await copyText(element.textContent))) return;
  button.textContent = translate("copied");
  setTimeout(() => (button.textContent = translate("copyCode")), 2000);
}

/** Adds colours; without a network there are none. */
async function highlight(element, language) {
  try {
    const [{ default: highlighter }, { default: grammar }] = await Promise.all([
      import("./vendor/highlight/core.js"),
      import(`./vendor/highlight/${language}.js`),
    ]);
    if (!highlighter.getLanguage(language)) highlighter.registerLanguage(language, grammar);
    const { value } = highlighter.highlight(element.textContent, { language });
    element.replaceChildren(DOMPurify.sanitize(value, COLOURS));
  } catch {
    // The code stays as it is.
  }
}
