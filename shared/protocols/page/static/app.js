// Starts the page: reads what the app can do, and connects the parts.

import { Chat } from "./chat.js";
import { hasRoute, readConfig, readSetup, ROUTES, setKey } from "./client.js";
import { showConversations } from "./conversations.js";
import { makeButton, makeItem } from "./elements.js";
import { showOptions } from "./options.js";
import { loadLanguage, translate } from "./text.js";

const find = (selector) => document.querySelector(selector);
const [composer, question, keyDialog] = ["#composer", "#question", "#key"].map(find);
const MAX_IMAGE_MEGABYTES = 10;
let image = null;

let chat = null;

await loadLanguage();
const config = await readConfig().catch(() => null);

function start() {
  const remembers = config.memory && hasRoute(ROUTES.conversations);
  chat = new Chat(remembers, showOptions(config.overrides), { editing, failed });
  chat.open();
  showWelcome();
  if (remembers) {
    showConversations((id, turns) => chat.open(id, turns), () => chat.state?.conversation_id);
  }
  find("#add-image").hidden = !config.images;
  document.body.inert = false; // everything has its action now
  question.disabled = false;
  question.focus();
}

function showWelcome() {
  const { model, index, examples } = config;
  const sentences = [];
  if (model) sentences.push(model === "demo" ? translate("runningDemo") : translate("runningModel", { model }));
  if (index) {
    const kind = index.isSamples ? "samples" : index.documents ? "documents" : "passages";
    sentences.push(translate(kind, index));
  }
  find("#running").textContent = sentences.join(" ");
  find("#examples").append(...examples.map(makeExample));
  find("#next-steps").hidden = !examples.length;
}

function makeExample(text) {
  return makeItem(makeButton({ textContent: text, lang: "en", dir: "auto" }, () => chat.ask(text)));
}

function editing(turn) {
  question.value = turn.question;
  setImage(turn.image);
  resize();
  question.focus();
}

async function failed({ kind }, retry) {
  if (kind === "key") {
    keyDialog.onclose = () => {
      const { value } = find("#key-value");
      find("#key-value").value = "";
      if (!value) return; // left with Escape: the question can be asked again
      setKey(value);
      retry();
    };
    keyDialog.showModal();
  } else if (kind === "sign-in") {
    location.href = (await readSetup()).signInPath;
  }
}

function send() {
  const text = question.value.trim();
  if (!text || chat.controller) return;
  question.value = "";
  resize();
  const current = image;
  setImage(null);
  chat.ask(text, current);
}

function resize() {
  question.style.height = "auto";
  question.style.height = `${question.scrollHeight}px`;
}

function setImage(file) {
  if (file && file.size > MAX_IMAGE_MEGABYTES * 2 ** 20) {
    alert(translate("imageTooLarge", { megabytes: MAX_IMAGE_MEGABYTES }));
    return;
  }
  image = file;
  const preview = find("#image-preview");
  URL.revokeObjectURL(preview.querySelector("img").src);
  preview.hidden = !file;
  if (file) preview.querySelector("img").src = URL.createObjectURL(file);
}

function takeImage(event, transfer) {
  const file = [...(transfer?.files ?? [])].find(({ type }) => type.startsWith("image/"));
  if (!file || !config.images) return;
  event.preventDefault();
  setImage(file);
}

composer.addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
question.addEventListener("input", resize);
question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
question.addEventListener("paste", (event) => takeImage(event, event.clipboardData));
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => takeImage(event, event.dataTransfer));
find("#add-image").addEventListener("click", () => find("#image-file").click());
find("#image-file").addEventListener("change", ({ target }) => {
  setImage(target.files[0] ?? null);
  target.value = "";
});
find("#image-preview button").addEventListener("click", () => setImage(null));
find("#new-chat").addEventListener("click", () => {
  chat.open();
  question.focus();
});
find("#show-options").addEventListener("click", () => find("#options").showModal());

if (config) start();
else find("#running").textContent = translate("errorStart");
