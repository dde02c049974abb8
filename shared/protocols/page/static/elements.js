// Makes elements of the page.

/** Makes an element with these properties. */
export function makeElement(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

/** Makes a button with these properties; `action` gets its click. */
export function makeButton(properties, action) {
  const button = makeElement("button", properties);
  button.addEventListener("click", action);
  return button;
}

/** Makes an item of a list. */
export function makeItem(...children) {
  const item = document.createElement("li");
  item.append(...children);
  return item;
}
