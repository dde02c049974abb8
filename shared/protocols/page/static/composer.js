// The question that is being written, with its image.

import { showNotice } from "./elements.js";
import { translate } from "./text.js";

const find = (selector) => document.querySelector(selector);
const [composer, question, preview] = ["#composer", "#question", "#image-preview"].map(find);
const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MAX_IMAGE_MEGABYTES = 10;
let image = null;

/** Turns the composer on; `send(question, image)` returns whether the question was taken. */
export function startComposer({ images, send }) {
  const submit = () => {
    const text = question.value.trim();
    if (!text || !send(text, image)) return;
    question.value = "";
    resize();
    setImage(null);
  };
  composer.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  question.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  question.addEventListener("input", resize);
  find("#image-preview button").addEventListener("click", () => {
    setImage(null);
    focusComposer();
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => takeImage(event, event.dataTransfer, images));
  question.addEventListener("paste", (event) => takeImage(event, event.clipboardData, images));
  find("#add-image").hidden = !images;
  find("#add-image").addEventListener("click", () => find("#image-file").click());
  find("#image-file").addEventListener("change", ({ target }) => {
    setImage(target.files[0] ?? null);
    target.value = "";
  });
  question.disabled = false;
  focusComposer();
}

/** Puts the focus where the next question is written; on a touch screen, whose keyboard that would
 * open, on the last turn. */
export function focusComposer() {
  const target = matchMedia("(pointer: coarse)").matches ? find("#turns > :last-child") ?? find("main") : question;
  if (target !== question) target.tabIndex = -1;
  target.focus({ preventScroll: true });
}

/** Puts it there if what had the focus is gone. */
export function restoreFocus() {
  const { activeElement: element } = document;
  if (element === document.body || !element.checkVisibility()) focusComposer();
}

function resize() {
  question.style.height = "auto";
  question.style.height = `${question.scrollHeight}px`;
}

function takeImage(event, transfer, images) {
  const [file] = transfer?.files ?? [];
  if (!file) return;
  event.preventDefault(); // the browser would leave the page for the file
  if (images) setImage(file);
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
