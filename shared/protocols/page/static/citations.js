// Citations in an answer: names in brackets become numbered links.

import { setLabel } from "./elements.js";

const BRACKETS = /^(?:\[([^\]\n]{1,1000})\]|【([^】\n]{1,1000})】)/;
const CITATION_LINK = /^#source-(\d+)$/;
const MAX_NAMES = 50; // in one pair of brackets
const WORD_JOINER = "\u2060"; // no line break here

/** The extensions for Markdown. `numbers` gets the names in the order in which the text uses them. */
export function citations(names, numbers) {
  const known = new Set(names);
  const numberOf = (name) => {
    if (!numbers.includes(name)) numbers.push(name);
    return numbers.indexOf(name) + 1;
  };
  const citation = {
    name: "citation",
    level: "inline",
    start: (text) => text.indexOf("【"), // text ends before a square bracket anyway
    tokenizer(text) {
      const match = BRACKETS.exec(text);
      const cited = match ? citedNames(match[1] ?? match[2], known) : [];
      if (!cited.length) return undefined;
      return { type: "citation", raw: match[0], numbers: cited.map(numberOf) };
    },
    renderer: ({ numbers }) =>
      numbers.map((number) => `<sup><a href="#source-${number}">${number}</a></sup>`).join(""),
  };
  return [citation];
}

/** Returns the known names that a text lists by commas or semicolons; none if one is unknown. */
function citedNames(text, known) {
  if (known.has(text)) return [text];
  const parts = text.split(/([,;])/); // each second one is a separator
  const names = [];
  for (let start = 0; start < parts.length; start += 2) {
    // A name may contain separators: the longest one counts.
    let end = Math.min(parts.length, start + 2 * MAX_NAMES);
    const name = () => parts.slice(start, end).join("").trim();
    while (end > start && !known.has(name())) end -= 1;
    if (end === start || names.length === MAX_NAMES) return [];
    names.push(name());
    start = end - 1;
  }
  return names;
}

/** Gives the links of citations their labels, and keeps them in the line of the word before. */
export function markCitations(fragment, numbers, label) {
  for (const link of fragment.querySelectorAll("a[href^='#']")) {
    const number = CITATION_LINK.exec(link.getAttribute("href"))[1];
    link.className = "citation";
    setLabel(link, label(number, numbers[number - 1]));
    const mark = link.closest("sup"); // none within a link that the model wrote
    if (mark) joinToWordBefore(mark);
  }
}

function joinToWordBefore(mark) {
  const before = mark.previousSibling;
  if (before?.nodeType === Node.TEXT_NODE) {
    before.data = before.data.trimEnd() + WORD_JOINER;
  } else if (before) {
    mark.before(WORD_JOINER);
  }
}
