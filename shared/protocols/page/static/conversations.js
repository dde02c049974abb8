// The list of stored conversations: by date, searched, renamed, deleted.

import { addressOf } from "./address.js";
import { RequestError } from "./client.js";
import { makeElement, makeIconButton, makeItem, showNotice } from "./elements.js";
import { showFailure } from "./errors.js";
import { deleteConversation, listConversations, renameConversation } from "./memory.js";
import { readPreference, storePreference } from "./preferences.js";
import { translate } from "./text.js";

const find = (selector) => document.querySelector(selector);
const [panel, toggle, shade] = ["#conversations", "#show-conversations", "#shade"].map(find);
const [more, search] = ["#more-conversations", "#search-conversations"].map(find);
const [groups, empty, error] = [".groups", ".empty", ".error"].map((name) => panel.querySelector(name));
const isWide = matchMedia("(min-width: 80rem)"); // there is room for the list beside the conversation
const DAY = 24 * 60 * 60 * 1000;
const PERIODS = [["today", 0], ["yesterday", 1], ["lastWeek", 7], ["lastMonth", 30], ["earlier", Infinity]];

let entries = []; // those that were loaded, the newest first: `id`, `name`, `created`
let position = 0; // of the next page, 0 if there is none
const deleted = new Set(); // the ids of those whose deletion can still be undone
let actions = null;

/**
 * Turns the list on. `actions`: `open(id)` shows a conversation, `current()` is the id of the one that
 * is shown, `isFree()` is called when that one is deleted. Returns `load` and `draw`.
 */
export function showConversations(connected) {
  actions = connected;
  toggle.hidden = false;
  showAtStart();
  load();
  return { load, draw };
}

/** Reads the first page again, and shows it. */
async function load() {
  [entries, position] = [[], 0];
  await loadMore();
}

async function loadMore() {
  await attempt(async () => {
    const page = await listConversations(position);
    const known = new Set(entries.map(({ id }) => id));
    for (const { memory_id: id, name, create_time: created } of page.memories) {
      if (!known.has(id)) entries.push({ id, name, created });
    }
    position = page.next_token ?? 0;
  });
  draw();
  if (search.value && position && !shownEntries().length) await loadMore();
}

/** Runs a request; a failure is shown above the list. */
async function attempt(request) {
  error.hidden = true;
  try {
    await request();
    return true;
  } catch (failure) {
    if (!(failure instanceof RequestError)) throw failure;
    showFailure(error, failure);
    position = 0;
    return false;
  }
}

function shownEntries() {
  const wanted = search.value.trim().toLocaleLowerCase();
  return entries.filter(({ id, name }) => !deleted.has(id) && name.toLocaleLowerCase().includes(wanted));
}

/** Shows the list as it is known; the entry with the focus keeps it. */
function draw() {
  const focused = document.activeElement.closest("#conversations li")?.dataset.id;
  const shown = shownEntries();
  const parts = PERIODS.flatMap(([name], place) => {
    const members = shown.filter(({ created }) => periodOf(created) === place);
    if (!members.length) return [];
    const list = document.createElement("ul");
    list.append(...members.map(makeEntry));
    return [makeElement("h3", { textContent: translate(name) }), list];
  });
  groups.replaceChildren(...parts);
  if (focused) focusEntry(focused);
  more.hidden = !position;
  const words = search.value.trim();
  const isEmpty = !shown.length && !position && error.hidden;
  empty.textContent = isEmpty ? translate(words ? "noMatch" : "noConversations", { words }) : "";
}

function periodOf(created) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const days = Math.ceil((midnight - Date.parse(created)) / DAY);
  return PERIODS.findIndex(([, limit]) => days <= limit);
}

function makeEntry(entry) {
  const { id, name } = entry;
  const isCurrent = actions.current() === id;
  const title = makeElement("a", { textContent: name, href: addressOf(id), dir: "auto", title: name });
  if (isCurrent) title.setAttribute("aria-current", "page");
  title.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // another tab or window
    event.preventDefault();
    closeDrawer();
    actions.open(id);
  });
  const label = (action) => `${translate(action)}: ${name}`;
  const rename = makeIconButton("edit", label("rename"), () => editName(entry, item));
  const remove = makeIconButton("delete", label("delete"), () => removeEntry(entry));
  const item = makeItem(title, rename, remove);
  item.dataset.id = id;
  return item;
}

function editName(entry, item) {
  const input = makeElement("input", { value: entry.name, maxLength: 1000, dir: "auto" });
  input.setAttribute("aria-label", translate("newName"));
  const end = async (isSaved) => {
    input.onblur = null;
    const name = input.value.trim();
    if (isSaved && name && name !== entry.name) {
      if (await attempt(() => renameConversation(entry.id, name))) entry.name = name;
    }
    draw();
    focusEntry(entry.id);
  };
  input.addEventListener("keydown", (event) => {
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
    event.stopPropagation();
    end(event.key === "Enter");
  });
  input.onblur = () => end(true);
  item.replaceChildren(input);
  input.select();
}

/** Deletes a conversation when it can no longer be undone: after some seconds, or when the page closes. */
function removeEntry(entry) {
  deleted.add(entry.id);
  const next = entries[entries.indexOf(entry) + 1];
  const isCurrent = actions.current() === entry.id;
  if (isCurrent) actions.isFree();
  draw();
  if (!isCurrent && next) focusEntry(next.id);
  else if (!isCurrent) search.focus();
  const close = () => deleteConversation(entry.id, { keepalive: true }).catch(() => {});
  addEventListener("pagehide", close);
  showNotice(translate("deleted", { name: entry.name }), {
    label: translate("undo"),
    action: () => {
      removeEventListener("pagehide", close);
      deleted.delete(entry.id);
      draw();
      focusEntry(entry.id);
      if (isCurrent) actions.open(entry.id);
    },
    expired: async () => {
      removeEventListener("pagehide", close);
      const isGone = await attempt(() => deleteConversation(entry.id).catch((failure) => {
        if (failure.status !== 404) throw failure; // deleted elsewhere
      }));
      if (isGone) entries = entries.filter(({ id }) => id !== entry.id);
      deleted.delete(entry.id);
      draw();
    },
  });
}

function focusEntry(id) {
  groups.querySelector(`[data-id="${CSS.escape(id)}"] a`)?.focus();
}

/** Shows the list where it covers nothing, unless the person has closed it. */
function showAtStart() {
  setOpen(isWide.matches && readPreference("conversations") !== false);
}

function setOpen(isOpen) {
  panel.hidden = !isOpen;
  shade.hidden = !isOpen || isWide.matches;
  toggle.setAttribute("aria-expanded", String(isOpen));
}

/** Closes the list where it covers the conversation. */
export function closeDrawer() {
  if (!isWide.matches) setOpen(false);
}

function close() {
  setOpen(false);
  if (isWide.matches) storePreference("conversations", false);
  toggle.focus();
}

toggle.addEventListener("click", () => {
  if (!panel.hidden) return close();
  setOpen(true);
  if (isWide.matches) storePreference("conversations", null);
  search.focus();
});
panel.querySelector(".close").addEventListener("click", close);
shade.addEventListener("click", close);
panel.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !isWide.matches) close();
});
isWide.addEventListener("change", () => actions && showAtStart());
search.addEventListener("input", () => {
  draw();
  if (position && search.value && !shownEntries().length) loadMore();
});
more.addEventListener("click", loadMore);
