// Renders an answer: Markdown without anything active, its citations as numbered links.

import { markCitations } from "./citations.js";
import { showCode } from "./code.js";
import { makeElement } from "./elements.js";
import { showFormulas } from "./formulas.js";
import { Markdown } from "./markdown.js";

const LINK_DEFINITION = /^ {0,3}\[[^\]\n]+\]:/m;

/** The end of the blocks that later text cannot change: after code, or a blank line outside of lists. */
function settledLength(text) {
  let end = 0;
  let place = 0;
  let fence = null; // of the block of code that is open
  const lines = text.split("\n");
  lines.pop(); // it may go on
  for (const [number, line] of lines.entries()) {
    place += line.length + 1;
    if (fence) {
      const isEnd = line.trim().startsWith(fence.marks) && !line.trim().replaceAll(fence.marks[0], "");
      if (isEnd && fence.isTop) end = place;
      if (isEnd) fence = null;
      continue;
    }
    const [, indent, marks] = /^(\s{0,3})(`{3,}(?!.*`)|~{3,})/.exec(line) ?? [];
    if (marks) {
      fence = { marks, isTop: !indent };
    } else if (!line.trim() && /^[^\s*+\-\d>|]/.test(lines[number + 1] ?? "")) {
      end = place;
    }
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
    this.markdown = new Markdown(citations, this.used);
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
      this.#draw(true);
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

  #draw(isEnd = false) {
    for (const node of this.tail) node.remove();
    const rest = this.text.slice(this.settled);
    const length = settledLength(rest);
    if (length) this.element.append(this.#render(rest.slice(0, length)));
    this.settled += length;
    const tail = this.#render(rest.slice(length), isEnd);
    this.tail = [...tail.childNodes];
    this.element.append(tail);
  }

  /** Returns the nodes of a text; of one that the parser cannot read, its characters. */
  #render(text, isComplete = true) {
    try {
      const { fragment, codes } = this.markdown.parse(text);
      markCitations(fragment, this.used, this.label);
      finish(fragment);
      showCode(codes, isComplete);
      showFormulas(codes, this.grow);
      return fragment;
    } catch { // marks nested too deeply for the stack
      const fragment = document.createDocumentFragment();
      fragment.append(makeElement("p", { className: "plain", textContent: text }));
      return fragment;
    }
  }
}

/** Adds what the sanitizer does not let through. */
function finish(fragment) {
  for (const link of fragment.querySelectorAll("a:not(.citation)")) {
    Object.assign(link, { target: "_blank", rel: "noopener noreferrer" });
  }
  for (const item of fragment.querySelectorAll("li")) {
    if (/^\s*[☐☑]/.test(item.textContent)) item.className = "task";
  }
  // What scrolls sideways must scroll by keyboard, too.
  for (const wide of fragment.querySelectorAll("pre, table")) wide.tabIndex = 0;
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
