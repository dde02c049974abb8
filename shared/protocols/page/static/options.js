// The drawer with the overrides that act in this deployment.

import { translate } from "./text.js";

const fields = document.querySelector("#option-fields");

/** Fills the drawer with the overrides of /config. Returns a function that reads what is set. */
export function showOptions(overrides) {
  fields.replaceChildren(...overrides.map(makeField));
  return () => Object.fromEntries(overrides.map(readValue).filter(([, value]) => value !== undefined));
}

function makeField({ name, type, values, minimum, maximum }) {
  const label = document.createElement("label");
  let input = document.createElement("input");
  if (type === "choice") {
    input = document.createElement("select");
    input.append(new Option(translate("default"), ""));
    input.append(...values.map((value) => new Option(translate(value), value)));
  } else if (type === "boolean") {
    input.type = "checkbox";
  } else if (type === "number") {
    Object.assign(input, { type: "number", min: minimum, max: maximum, step: "any" });
    input.placeholder = translate("default");
  }
  input.name = name;
  label.append(translate(name), input);
  return label;
}

function readValue({ name, type }) {
  const input = fields.querySelector(`[name="${name}"]`);
  if (type === "boolean") return [name, input.checked || undefined];
  if (input.value === "" || !input.checkValidity()) return [name, undefined];
  return [name, type === "number" ? Number(input.value) : input.value];
}
