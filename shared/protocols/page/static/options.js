// The dialog with the overrides that act in this deployment, the theme and the language.

import { makeButton, makeElement, makeItem } from "./elements.js";
import { applyTheme, readPreference, storePreference } from "./preferences.js";
import { hasSentence, LANGUAGES, loadLanguage, translate } from "./text.js";

const find = (selector) => document.querySelector(selector);
const [dialog, fields, active] = ["#options", "#option-fields", "#active-options"].map(find);
const [theme, language] = ["#theme", "#language"].map(find);
let [overrides, handlers] = [[], null];

/**
 * Fills the dialog. `handlers` react to `changed(values)`, for another value, and `translated()`, for
 * another language. Returns a function that reads the overrides.
 */
export function startOptions(offered, connected) {
  [overrides, handlers] = [offered, connected];
  language.append(...Object.entries(LANGUAGES).map(([tag, name]) => new Option(name, tag)));
  [theme.value, language.value] = [readPreference("theme") ?? "", readPreference("language") ?? ""];
  const stored = readPreference("options") ?? {};
  draw((name) => stored[name]);
  return readOptions;
}

function draw(valueOf) {
  fields.replaceChildren(...overrides.map((each) => makeField(each, valueOf(each.name))));
  showActive();
}

function makeField({ name, type, values, minimum, maximum }, value) {
  const label = document.createElement("label");
  let input = document.createElement("input");
  if (type === "choice") {
    input = document.createElement("select");
    input.append(new Option(translate("default"), ""));
    input.append(...values.map((each) => new Option(nameOf(each), each)));
  } else if (type === "boolean") {
    input.type = "checkbox";
  } else if (type === "number") {
    input.inputMode = "decimal";
    input.placeholder = `${translate("default")} (${minimum}–${maximum})`;
  } else if (values) {
    input.setAttribute("list", `${name}-values`);
    const list = makeElement("datalist", { id: `${name}-values` });
    list.append(...values.map((each) => new Option(each)));
    label.append(list);
  }
  input.name = name;
  if (type === "boolean") input.checked = value === true;
  else input.value = value ?? "";
  const error = makeElement("span", { className: "error", id: `${name}-error`, hidden: true });
  error.setAttribute("role", "alert");
  // The hint and the error describe the field, they do not name it.
  const title = makeElement("span", { id: `${name}-title`, textContent: translate(name) });
  const hint = makeElement("small", { id: `${name}-hint`, hidden: !hasSentence(`${name}_hint`) });
  hint.textContent = hint.hidden ? "" : translate(`${name}_hint`);
  input.setAttribute("aria-labelledby", title.id);
  input.setAttribute("aria-describedby", `${hint.id} ${error.id}`);
  label.prepend(title, input);
  label.append(hint, error);
  showError(input, { minimum, maximum, type });
  return label;
}

/** Values such as `hybrid` have a name; those of a deployment, such as models, are names. */
const nameOf = (value) => (hasSentence(`value_${value}`) ? translate(`value_${value}`) : String(value));

const inputOf = (name) => fields.querySelector(`[name="${name}"]`);

function readNumber(text, { minimum, maximum }) {
  const number = Number(text.trim().replace(",", "."));
  return text.trim() && number >= minimum && number <= maximum ? number : undefined;
}

function showError(input, { minimum, maximum, type }) {
  const isNumber = type === "number" && input.value.trim() !== "";
  const isWrong = isNumber && readNumber(input.value, { minimum, maximum }) === undefined;
  const error = input.parentElement.querySelector(".error");
  input.setAttribute("aria-invalid", String(isWrong));
  error.hidden = !isWrong;
  error.textContent = isWrong ? translate("numberBetween", { minimum, maximum }) : "";
}

function readValue(override) {
  const input = inputOf(override.name);
  if (override.type === "boolean") return input.checked || undefined;
  if (override.type === "number") return readNumber(input.value, override);
  return input.value.trim() || undefined;
}

function readOptions() {
  const values = overrides.map((override) => [override.name, readValue(override)]);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** Shows what is set above the composer, each with a button that takes it back. */
function showActive() {
  const values = readOptions();
  const set = Object.entries(values);
  active.replaceChildren(...set.map(([name, value]) => {
    const text = value === true ? translate(name) : `${translate(name)}: ${nameOf(value)}`;
    const button = makeButton({ textContent: `${text} ×` }, () => reset(name));
    button.setAttribute("aria-label", translate("resetOption", { name: text }));
    return makeItem(button);
  }));
  active.hidden = !set.length;
  storePreference("options", set.length ? values : null);
  handlers.changed(values);
}

function reset(name) {
  const values = readOptions();
  draw((each) => (each === name ? undefined : values[each]));
  find("#question").focus();
}

fields.addEventListener("input", ({ target }) => {
  showError(target, overrides.find(({ name }) => name === target.name));
  showActive();
});
find("#reset-options").addEventListener("click", () => draw(() => undefined));
find("#show-options").addEventListener("click", () => dialog.showModal());
theme.addEventListener("change", () => {
  storePreference("theme", theme.value);
  applyTheme();
});
language.addEventListener("change", async () => {
  storePreference("language", language.value);
  const values = readOptions();
  await loadLanguage();
  draw((name) => values[name]);
  handlers.translated();
});
