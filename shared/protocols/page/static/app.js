// Starts the page: reads what the app can do, and connects the parts.

import { readAddress, setAddress } from "./address.js";
import { Chat } from "./chat.js";
import { hasRoute, readConfig, readKey, readSetup, RequestError, ROUTES, setKey } from "./client.js";
import { focusComposer, restoreFocus, setDraft, startComposer } from "./composer.js";
import { closeDrawer, showConversations } from "./conversations.js";
import { makeButton, makeItem, showNotice } from "./elements.js";
import { explainFailure } from "./errors.js";
import { readConversation } from "./memory.js";
import { startOptions } from "./options.js";
import { applyTheme, readForTab, storeForTab } from "./preferences.js";
import { watchEnd } from "./scroll.js";
import { loadLanguage, translate } from "./text.js";

const find = (selector) => document.querySelector(selector);
const [keyDialog, keyValue, keyError] = ["#key", "#key-value", "#key .error"].map(find);
let chat = null;
let conversations = null;
let opening = ""; // the id of the conversation that is being read

applyTheme();
restoreAddress();
const [config] = await Promise.all([readConfig().catch(() => null), loadLanguage()]);

function start() {
  const remembers = config.memory && hasRoute(ROUTES.conversations);
  const options = startOptions(config.overrides, {
    changed: showModel,
    translated: () => {
      showWelcome();
      conversations?.draw();
    },
  });
  showWelcome();
  chat = new Chat(remembers, options, {
    failed,
    changed: () => conversations?.load(),
    focusLost: restoreFocus,
  });
  if (remembers) {
    conversations = showConversations({
      open: openConversation,
      current: () => opening || chat.id,
      isFree: startNew,
    });
  }
  const upload = config.uploads ? showUploads : null;
  startComposer({ images: config.images, send, upload });
  find("#show-uploads").hidden = !upload;
  find("#show-uploads").addEventListener("click", () => showUploads());
  watchEnd(focusComposer);
  find("#new-chat").addEventListener("click", startNew);
  addEventListener("popstate", openAddress);
  document.body.inert = false; // everything has its action now
  focusComposer();
  return openAddress();
}

function send(question, image = null) {
  if (chat.controller || opening) return false;
  chat.ask(question, image);
  return true;
}

/** Shows the documents of the user, and uploads files. */
async function showUploads(files = []) {
  const uploads = await import("./uploads.js").catch(() => null); // another try loads it again
  if (uploads) return uploads.showUploads(files);
  showNotice(explainFailure(new RequestError("offline")));
}

function startNew() {
  opening = "";
  setAddress(null);
  chat.open();
  conversations?.draw();
  closeDrawer();
  focusComposer();
}

/** Shows a stored conversation; its turn `place`, from 1, if there is one. */
async function openConversation(id, place = 0) {
  if (id === chat.id && !opening && !place) return;
  setAddress(id);
  opening = id;
  conversations.draw();
  find("#turns").setAttribute("aria-busy", "true");
  try {
    const turns = await readConversation(id);
    if (opening === id) chat.open(id, turns, place); // no other one was opened meanwhile
  } catch (failure) {
    if (opening === id) showMissing(failure);
  }
  if (opening === id) opening = "";
  find("#turns").removeAttribute("aria-busy");
  conversations.draw();
}

function showMissing(failure) {
  if (!(failure instanceof RequestError)) throw failure;
  if (failure.status === 404) setAddress(null, { replace: true });
  chat.open();
  showNotice(failure.status === 404 ? translate("noConversation") : explainFailure(failure));
}

async function openAddress() {
  const { id, turn } = readAddress();
  if (id && conversations) return openConversation(id, turn);
  opening = "";
  chat.open();
  conversations?.draw();
}

function showModel({ model }) {
  find("#model").textContent = model ?? config.model ?? "";
}

function showWelcome() {
  const { model, index, examples, title, color } = config;
  const sentences = [];
  if (model) sentences.push(translate(model === "demo" ? "runningDemo" : "runningModel", { model }));
  if (index) {
    const kind = index.isSamples ? "samples" : index.documents ? "documents" : "passages";
    sentences.push(translate(kind, index));
  }
  document.title = find("h1").textContent = title || translate("title");
  if (color) document.documentElement.style.setProperty("--brand", color);
  find("#running").textContent = sentences.join(" ");
  find("#examples").replaceChildren(...examples.map(makeExample));
  find("#next-steps").hidden = !index?.isSamples;
}

function makeExample(text) {
  return makeItem(makeButton({ textContent: text, dir: "auto" }, () => send(text)));
}

async function failed({ kind }, turn, retry) {
  if (kind === "key") askForKey(retry);
  if (kind !== "sign-in") return;
  setDraft(turn.question);
  storeForTab("address", location.hash);
  location.href = (await readSetup()).signInPath;
}

/** Goes back to the conversation that was shown before a sign-in. */
function restoreAddress() {
  const address = readForTab("address");
  storeForTab("address", "");
  if (address && !location.hash) history.replaceState(null, "", address);
}

function askForKey(retry) {
  keyError.textContent = translate("keyRefused");
  keyError.hidden = readKey() === null;
  keyValue.value = "";
  keyDialog.onclose = () => {
    // Left with Escape: the question can be asked again.
    if (keyDialog.returnValue === "sent") retry();
    keyDialog.returnValue = "";
  };
  keyDialog.showModal();
}

find("#key form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (setKey(keyValue.value.trim())) {
    keyValue.value = "";
    keyDialog.close("sent");
    return;
  }
  keyError.textContent = translate("keyInvalid");
  keyError.hidden = false;
});

if (config) {
  await start();
} else {
  find("#running").textContent = translate("errorStart");
  find("#welcome").hidden = false;
}
