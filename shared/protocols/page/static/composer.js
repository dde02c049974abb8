// The question that is being written, with its image.

import { showNotice } from "./elements.js";
import { readForTab, storeForTab } from "./preferences.js";
import { translate } from "./text.js";

const find = (selector) => document.querySelector(selector);
const [composer, question, preview] = ["#composer", "#question", "#image-preview"].map(find);
const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MAX_IMAGE_MEGABYTES = 10;
let image = null;

/**
 * Turns the composer on. `send(question, image)` returns whether the question was taken; `upload(files)`
 * is null where documents cannot be uploaded.
 */
export function startComposer({ images, send, upload }) {
  const submit = () => {
    const text = question.value.trim();
    if (!text || !send(text, image)) return;
    setDraft("");
    setImage(null);
  };
  composer.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  question.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") find("#stop").click();
    else if (event.key === "ArrowUp" && !question.value) editLast(event);
    else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      submit();
    }
  });
  question.addEventListener("input", () => setDraft(question.value));
  setDraft(readForTab("draft") ?? "");
  find("#image-preview button").addEventListener("click", () => {
    setImage(null);
    focusComposer();
  });
  addEventListener("dragover", (event) => event.preventDefault());
  const take = (event, transfer) => takeFiles(event, transfer, images, upload);
  addEventListener("drop", (event) => take(event, event.dataTransfer));
  question.addEventListener("paste", (event) => take(event, event.clipboardData));
  find("#add-image").hidden = !images;
  find("#add-image").addEventListener("click", () => find("#image-file").click());
  find("#image-file").addEventListener("change", ({ target }) => {
    setImage(target.files[0] ?? null);
    target.value = "";
  });
  question.disabled = false;
}

/** Puts the focus where the next question is written; on a touch screen, whose keyboard that would
 * open, on the last turn. */
export function focusComposer() {
  const isTouch = matchMedia("(pointer: coarse)").matches;
  const target = isTouch ? (find("#turns > :last-child") ?? find("main")) : question;
  if (target !== question) target.tabIndex = -1;
  target.focus({ preventScroll: true });
}

/** Puts it there if what had the focus is gone. */
export function restoreFocus() {
  const { activeElement: element } = document;
  if (element === document.body || !element.checkVisibility()) focusComposer();
}

function editLast(event) {
  const button = [...document.querySelectorAll(".turn .edit")].at(-1);
  if (!button?.checkVisibility()) return;
  event.preventDefault();
  button.click();
}

/** Sets the question that is being written; it survives a reload and a sign-in. */
export function setDraft(text) {
  storeForTab("draft", text);
  if (question.value !== text) question.value = text;
  question.style.height = "auto";
  question.style.height = `${question.scrollHeight}px`;
}

/** Takes a dropped or pasted image for the question, and other files as documents. */
function takeFiles(event, transfer, images, upload) {
  const files = [...(transfer?.files ?? [])];
  // What is copied in a table or a text program is text with a picture of it.
  if (!files.length || transfer.types.includes("text/plain")) return;
  event.preventDefault(); // the browser would leave the page for the file
  const isImage = files.length === 1 && IMAGE_TYPES.includes(files[0].type);
  if (upload && !(images && isImage)) upload(files);
  else if (images) setImage(files[0]);
}

function setImage(file) {
  if (file && !IMAGE_TYPES.includes(file.type)) return showNotice(translate("imageType"));
  if (file && file.size > MAX_IMAGE_MEGABYTES * 2 ** 20) {
    return showNotice(translate("imageTooLarge", { megabytes: MAX_IMAGE_MEGABYTES }));
  }
  image = file;
  URL.revokeObjectURL(preview.querySelector("img").src);
  preview.hidden = !file;
  if (file) preview.querySelector("img").src = URL.createObjectURL(file);
}
