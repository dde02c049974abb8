// Parses Markdown into nodes without anything active.

import { citations } from "./citations.js";
import { formulas } from "./formulas.js";
import { Marked, Tokenizer } from "./vendor/marked.js";
import DOMPurify from "./vendor/purify.js";

const SANITIZER = {
  ALLOWED_TAGS: [
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol",
    "p", "pre", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["href", "start", "align"],
  ADD_URI_SAFE_ATTR: ["start", "align"], // they are no addresses
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#source-\d+$)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const MAX_SEARCH = 2_000_000; // characters in which ends of emphasis are sought in vain
const MAX_DEPTH = 20; // of emphasis in emphasis
const TOO_DEEP = /^(?:[ \t]*(?:>|(?:[-*+]|\d{1,9}[.)])[ \t])){50}/m; // quotes and lists in a line

const escapeHtml = (text) =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** `<br>`, `<sub>` and `<sup>` without attributes are the only HTML that a model may write. */
const lineBreak = {
  name: "lineBreak",
  level: "inline",
  tokenizer(text) {
    const match = /^<br ?\/?>/i.exec(text);
    return match ? { type: "lineBreak", raw: match[0] } : undefined;
  },
  renderer: () => "<br>",
};
const script = {
  name: "script",
  level: "inline",
  tokenizer(text) {
    const match = /^<(su[bp])>((?:(?!<\/?su[bp]>)[^\n])+)<\/\1>/i.exec(text);
    if (!match) return undefined;
    const tokens = this.lexer.inlineTokens(match[2]);
    return { type: "script", raw: match[0], tag: match[1].toLowerCase(), tokens };
  },
  renderer({ tag, tokens }) {
    return `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`;
  },
};

/** What differs from marked's own renderer. `code` returns the HTML of a `code` element. */
function makeRenderer(code) {
  let top = 0; // the depth of the first heading
  return {
    html: ({ text }) => escapeHtml(text), // as text: the reader sees what the model wrote
    heading({ tokens, depth }) {
      top ||= depth;
      const level = Math.min(6, Math.max(0, depth - top) + 3); // below those of the page
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
    image: ({ text, href }) => escapeHtml(text || href), // an image could tell its server who reads
    link({ href, tokens }) {
      const content = this.parser.parseInline(tokens);
      const leadsOut = /^(?:https?|mailto):/i.test(href); // only citations lead to places of the page
      return leadsOut ? `<a href="${escapeHtml(href)}">${content}</a>` : content;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    code: ({ text, lang }) => `<pre>${code({ kind: "block", language: lang ?? "" }, text)}</pre>`,
    codespan: ({ text }) => code({ kind: "inline" }, text),
  };
}

export class Markdown {
  #codes = [];
  #limits = {};

  /** `numbers` gets the names that the text cites, in the order of their numbers. */
  constructor(names, numbers) {
    const code = (description, text) => {
      this.#codes.push(description);
      return `<code>${escapeHtml(text)}</code>`;
    };
    this.marked = new Marked({
      gfm: true,
      extensions: [...citations(names, numbers), ...formulas(code), lineBreak, script],
      renderer: makeRenderer(code),
      tokenizer: this.#makeTokenizer(),
    });
  }

  /** Returns the nodes of a text, and what each `code` element in them is. Throws if it cannot. */
  parse(text) {
    if (TOO_DEEP.test(text)) throw new RangeError("nested too deeply");
    this.#codes = [];
    Object.assign(this.#limits, { search: MAX_SEARCH, depth: 0 });
    const fragment = DOMPurify.sanitize(this.marked.parse(text), SANITIZER);
    const elements = [...fragment.querySelectorAll("code")];
    return { fragment, codes: elements.map((element, at) => ({ element, ...this.#codes[at] })) };
  }

  #makeTokenizer() {
    const limits = this.#limits;
    return {
      // At the start of a line, too, the three tags begin a paragraph, not a block of HTML.
      html: (text) => (/^ {0,3}<(?:br ?\/?|\/?su[bp])>/i.test(text) ? undefined : false),
      // A mark without an end costs a search of the whole paragraph, and so does each level.
      emStrong(text, masked, before) {
        if (limits.search < 0 || limits.depth > MAX_DEPTH || !/^[*_]/.test(text)) return undefined;
        limits.depth += 1;
        const token = Tokenizer.prototype.emStrong.call(this, text, masked, before);
        limits.depth -= 1;
        if (!token) limits.search -= text.length;
        return token;
      },
    };
  }
}
