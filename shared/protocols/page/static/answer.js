// Renders an answer: Markdown without anything active, its citations as numbered links.

import { Marked } from "./vendor/marked.js";
import DOMPurify from "./vendor/purify.js";

const TAGS = [
  "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol",
  "p", "pre", "strong", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
];
const SANITIZER = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "start", "align"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#source-\d+$)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const LINK_DEFINITION = /^ {0,3}\[[^\]\n]+\]:/m;
const CITATION_LINK = /^#source-(\d+)$/;

const escapeHtml = (text) =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** Numbers citations in the order in which the answer uses them. */
function makeParser(citations, numbers) {
  const numberOf = (name) => {
    if (!citations.includes(name)) return 0;
    if (!numbers.includes(name)) numbers.push(name);
    return numbers.indexOf(name) + 1;
  };
  const citation = {
    name: "citation",
    level: "inline",
    start: (text) => text.indexOf("["),
    tokenizer(text) {
      const match = /^\[([^\]\n]+)\]/.exec(text);
      const number = match ? numberOf(match[1]) : 0;
      return number ? { type: "citation", raw: match[0], number } : undefined;
    },
    renderer: ({ number }) => `<sup><a href="#source-${number}">${number}</a></sup>`,
  };
  const renderer = {
    html: ({ text }) => escapeHtml(text), // as text: the reader sees what the model wrote
    heading({ tokens, depth }) {
      const level = Math.min(6, depth + 2); // below those of the page
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
    image: ({ text, href }) => escapeHtml(text || href), // an image could tell its server who reads
  };
  return new Marked({ gfm: true, extensions: [citation], renderer });
}

function sanitize(html, numbers, label) {
  const fragment = DOMPurify.sanitize(html, SANITIZER);
  for (const link of fragment.querySelectorAll("a")) {
    const number = CITATION_LINK.exec(link.getAttribute("href") ?? "")?.[1];
    if (number && numbers[number - 1]) {
      link.className = "citation";
      link.setAttribute("aria-label", label(number, numbers[number - 1]));
    } else if (/^(?:https?|mailto):/i.test(link.getAttribute("href") ?? "")) {
      Object.assign(link, { target: "_blank", rel: "noopener noreferrer" });
    } else {
      link.removeAttribute("href");
    }
  }
  // What scrolls sideways must scroll by keyboard, too.
  for (const wide of fragment.querySelectorAll("pre, table")) wide.tabIndex = 0;
  return fragment;
}

/** The end of the blocks that later text cannot change: a blank line outside of code and lists. */
function settledLength(text) {
  let end = 0;
  let place = 0;
  let inCode = false;
  const lines = text.split("\n");
  lines.pop(); // it may go on
  for (const [number, line] of lines.entries()) {
    place += line.length + 1;
    if (/^\s{0,3}(```|~~~)/.test(line)) inCode = !inCode;
    const next = lines[number + 1] ?? "";
    if (!inCode && !line.trim() && /^[^\s*+\-\d>|]/.test(next)) end = place;
  }
  return end;
}

/** An answer that grows: what is settled is rendered once, the rest again in the next frame. */
export class AnswerView {
  /** `grow` gets a function that draws what has come, and must call it. */
  constructor(element, label, grow) {
    Object.assign(this, { element, label, grow, text: "", settled: 0, tail: [], frame: 0, pause: 0 });
    this.setCitations([]);
  }

  /** `used` has the citations that the text uses, in the order of their numbers. */
  setCitations(citations) {
    this.used = [];
    this.parser = makeParser(citations, this.used);
  }

  append(text) {
    this.text += text;
    this.frame ||= requestAnimationFrame(() => this.#drawFrame());
  }

  /** Renders the rest; all of it where the end has an address that the text refers to. */
  end() {
    cancelAnimationFrame(this.frame);
    if (LINK_DEFINITION.test(this.text)) {
      this.element.replaceChildren(this.#render(this.text));
    } else {
      this.#draw();
    }
  }

  #drawFrame() {
    const start = performance.now();
    if (start < this.pause) {
      this.frame = requestAnimationFrame(() => this.#drawFrame());
      return;
    }
    this.frame = 0;
    this.grow(() => this.#draw());
    // A long paragraph takes longer than a frame: leave time for everything else.
    this.pause = performance.now() + 4 * (performance.now() - start);
  }

  #draw() {
    for (const node of this.tail) node.remove();
    const rest = this.text.slice(this.settled);
    const length = settledLength(rest);
    if (length) this.element.append(this.#render(rest.slice(0, length)));
    this.settled += length;
    const tail = this.#render(rest.slice(length));
    this.tail = [...tail.childNodes];
    this.element.append(tail);
  }

  #render(text) {
    return sanitize(this.parser.parse(text), this.used, this.label);
  }
}

const SHORTEST_QUOTE = 3; // words; fewer may be equal by chance

/** Returns the parts of a passage as [text, isQuoted]: runs of words that the answer has too. */
export function markQuotes(passage, answer) {
  const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const spoken = words(answer);
  const known = new Set(spoken.map((_, at) => spoken.slice(at, at + SHORTEST_QUOTE).join(" ")));
  const parts = passage.split(/([\p{L}\p{N}]+)/u); // each second one is a word
  const quoted = new Set();
  for (let at = 1; at + 2 * SHORTEST_QUOTE - 2 < parts.length; at += 2) {
    const run = Array.from({ length: SHORTEST_QUOTE }, (_, number) => at + 2 * number);
    if (known.has(run.map((place) => parts[place].toLowerCase()).join(" "))) {
      run.forEach((place) => quoted.add(place));
    }
  }
  return parts.map((part, at) => [part, quoted.has(at) || (quoted.has(at - 1) && quoted.has(at + 1))]);
}
