// Makes elements of the page.

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element with these properties. */
export function makeElement(name, properties) {
  return Object.assign(document.createElement(name), properties);
}

/** Makes a button with these properties; `action` gets its click. */
export function makeButton(properties, action) {
  const button = makeElement("button", { type: "button", ...properties });
  button.addEventListener("click", action);
  return button;
}

/** Makes a button that shows an icon of index.html; `label` is its name, and its tooltip. */
export function makeIconButton(icon, label, action) {
  const button = makeButton({ className: "quiet icon" }, action);
  button.append(makeIcon(icon));
  setLabel(button, label);
  return button;
}

/** Gives an element without words a name. */
export function setLabel(element, label) {
  element.setAttribute("aria-label", label);
  element.title = label;
}

function makeIcon(name) {
  const [icon, use] = ["svg", "use"].map((each) => document.createElementNS(SVG, each));
  icon.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#icon-${name}`);
  icon.append(use);
  return icon;
}

/** Shows for a moment that a button has done its work: another icon and the sentence `done`. */
export function showDone(button, done) {
  const label = button.getAttribute("aria-label");
  const use = button.querySelector("use");
  const icon = use.getAttribute("href");
  if (icon === "#icon-done") return;
  use.setAttribute("href", "#icon-done");
  setLabel(button, done);
  setTimeout(() => {
    use.setAttribute("href", icon);
    setLabel(button, label);
  }, 2000);
}

/** Makes an item of a list. */
export function makeItem(...children) {
  const item = document.createElement("li");
  item.append(...children);
  return item;
}

const notice = document.querySelector("#notice");
const NOTICE_SECONDS = 8;
let [timer, expire] = [0, () => {}];

/**
 * Shows a sentence at the end of the page for some seconds, with an action or without.
 * `expired` is called when the action is no longer offered; at once if another notice comes.
 */
export function showNotice(sentence, { label = "", action = () => {}, expired = () => {} } = {}) {
  closeNotice();
  notice.querySelector("span").textContent = sentence;
  notice.showPopover();
  const button = notice.querySelector("button");
  [button.textContent, button.hidden] = [label, !label];
  button.onclick = () => {
    expire = () => {};
    closeNotice();
    action();
  };
  expire = expired;
  startTimer();
}

function startTimer() {
  clearTimeout(timer);
  timer = setTimeout(closeNotice, NOTICE_SECONDS * 1000);
}

// Who is about to use what it offers has the time to.
for (const kind of ["pointerenter", "focusin"]) notice.addEventListener(kind, () => clearTimeout(timer));
for (const kind of ["pointerleave", "focusout"]) notice.addEventListener(kind, startTimer);

/** Closes the notice; what it offered is no longer offered. */
export function closeNotice() {
  clearTimeout(timer);
  if (notice.matches(":popover-open")) notice.hidePopover();
  const last = expire;
  expire = () => {};
  last();
}

/** Shows how many seconds are left by `sentence(seconds)`; a screen reader hears the first and the last. */
export function countDown(element, seconds, sentence) {
  const heard = makeElement("span", { className: "hidden", textContent: sentence(seconds) });
  const shown = makeElement("span", { textContent: sentence(seconds) });
  shown.setAttribute("aria-hidden", "true");
  element.replaceChildren(heard, shown);
  const timer = setInterval(() => {
    seconds -= 1;
    shown.textContent = sentence(seconds);
    if (seconds <= 0) element.textContent = sentence(0);
    if (seconds <= 0 || !element.isConnected) clearInterval(timer);
  }, 1000);
}

/** Saves a file under a name; without one, shows it in another tab, at a `place` in it. */
export function openFile(blob, { name = "", place = "" }) {
  const address = URL.createObjectURL(blob);
  const link = makeElement("a", { href: place ? `${address}#${place}` : address });
  if (name) link.download = name;
  else link.target = "_blank";
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
