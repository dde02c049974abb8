// Formulas in an answer: TeX between \( \), \[ \] or $$ $$ becomes MathML.

const CLOSINGS = { "\\(": /(?<!\\)\\\)/, "\\[": /(?<!\\)\\\]/, $$: /\$\$/ };
const MAX_LENGTH = 2000;
const MAX_DEPTH = 25; // of braces
const MAX_CANDIDATES = 100; // for blocks in a paragraph
const MAX_INLINE = 60; // characters that surely fit into a line
const MAX_FORMULAS = 500; // rendered at once
// Definitions can grow without limit; names are of the whole page; these two write style attributes,
// which the policy of the page forbids.
const REFUSED =
  /\\(?:[egx]?def|(?:future)?let|global|long|(?:re)?newcommand|providecommand|DeclareMathOperator|label|(?:eq)?ref|sideset|pmb)(?![a-zA-Z])/;
// The library limits positive sizes only.
const FAR_BACK = /-\s*[\d.]{3,}\s*(?:em|ex|mu|[mc]m|in|p[xtc]|bp|dd|cc|n[dc]|sp)/;
const OPTIONS = {
  throwOnError: true,
  trust: false, // no links, images, classes, styles
  maxSize: [10, 100], // em and points
  maxExpand: 200,
};

let temml = null; // the library, when an answer has needed it
const rendered = new Map(); // nodes by source: the end of an answer is drawn again and again

/** The extensions for Markdown. `code` returns the HTML of the element that stands for a formula. */
export function formulas(code) {
  const placeholder = ({ source, body, isBlock }) =>
    code({ kind: "formula", body, isBlock }, source);
  const inline = {
    name: "formula",
    level: "inline",
    start: (text) => text.indexOf("$$"), // text ends before a backslash anyway
    tokenizer(text) {
      const formula = readFormula(text);
      return formula && !isMoney(formula) ? { type: "formula", ...formula } : undefined;
    },
    renderer: placeholder,
  };
  const block = {
    name: "formulaBlock",
    level: "block",
    start: findBlock,
    tokenizer(text) {
      const formula = readBlock(text);
      return formula ? { type: "formulaBlock", ...formula } : undefined;
    },
    renderer: (token) => `<p>${placeholder(token)}</p>\n`,
  };
  return [inline, block];
}

/** Returns the place of the first formula with lines of its own in a paragraph. */
function findBlock(text) {
  const candidates = text.matchAll(/\n[ \t]*\n|\n(?= {0,3}(?:\\\[|\$\$))/g);
  for (let count = 0; count < MAX_CANDIDATES; count += 1) {
    const { value: match } = candidates.next();
    if (match?.[0] !== "\n") return undefined; // the end of the text or of the paragraph
    if (readBlock(text.slice(match.index + 1, match.index + 2 * MAX_LENGTH))) return match.index;
  }
  return undefined;
}

/** Returns the formula at the start of a text if nothing follows in its last line. */
function readBlock(text) {
  const [indent] = /^ {0,3}/.exec(text);
  const formula = readFormula(text.slice(indent.length, indent.length + MAX_LENGTH + 4));
  if (!formula?.isBlock) return undefined;
  const raw = indent + formula.source;
  const end = /^[ \t]*(?:\n+|$)/.exec(text.slice(raw.length, raw.length + 100));
  return end ? { ...formula, raw: raw + end[0] } : undefined;
}

/** Returns the complete formula at the start of a text. */
function readFormula(text) {
  const opening = text.slice(0, 2);
  const closing = CLOSINGS[opening];
  if (!closing) return undefined;
  const rest = text.slice(2, MAX_LENGTH + 4);
  const end = closing.exec(rest)?.index ?? 0;
  const body = rest.slice(0, end).trim();
  const isPrice = opening === "$$" && (rest[0] === "$" || rest[end + 2] === "$"); // "$$$"
  // Neither code nor the end of a paragraph is within a formula.
  if (!body || isPrice || /`|\n[ \t]*\n/.test(body)) return undefined;
  const source = text.slice(0, end + 4);
  return { raw: source, source, body, isBlock: opening !== "\\(" };
}

/** Whether dollars within a sentence are prices: "$$100 or $$". */
function isMoney({ source, body }) {
  return source.startsWith("$") && !/[\\^_=]/.test(body) && !/^\$\$[a-z]\S*$/i.test(source);
}

/** Shows formulas instead of the elements that stand for them; where that fails, these stay. */
export async function showFormulas(codes, grow) {
  const places = codes.filter(({ kind }) => kind === "formula").slice(0, MAX_FORMULAS);
  if (!places.length) return;
  if (temml) {
    places.forEach(showFormula);
    return;
  }
  try {
    temml = (await import("./vendor/temml.js")).default;
  } catch {
    return; // without a network the source stays
  }
  grow(() => places.forEach(showFormula));
}

function showFormula({ element, body, isBlock }) {
  const key = `${isBlock} ${body}`;
  if (rendered.size > 2 * MAX_FORMULAS) rendered.clear();
  if (!rendered.has(key)) rendered.set(key, renderFormula(body, isBlock));
  const formula = rendered.get(key);
  if (formula) element.replaceWith(formula.cloneNode(true));
}

/** Returns the element of a formula, or null if the library or the page refuses it. */
function renderFormula(body, isBlock) {
  if (REFUSED.test(body) || FAR_BACK.test(body) || depthOf(body) > MAX_DEPTH) return null;
  const element = document.createElement("span");
  try {
    temml.render(body, element, { ...OPTIONS, displayMode: isBlock });
  } catch {
    return null;
  }
  element.className = isBlock ? "formula block" : "formula";
  const isWide = isBlock || body.length > MAX_INLINE;
  element.classList.toggle("wide", isWide);
  if (isWide) element.tabIndex = 0; // what scrolls sideways must scroll by keyboard, too
  return element;
}

function depthOf(body) {
  let [depth, deepest] = [0, 0];
  for (const [mark] of body.matchAll(/[{}]|\\left(?![a-z])|\\right(?![a-z])|\\begin|\\end/g)) {
    depth += /[{]|left|begin/.test(mark) ? 1 : -1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}
