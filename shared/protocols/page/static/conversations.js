// The list of stored conversations.

import { deleteConversation, listConversations, readConversation, renameConversation } from "./client.js";
import { makeButton, makeItem } from "./elements.js";
import { translate } from "./text.js";

const panel = document.querySelector("#conversations");
const list = panel.querySelector("ul");
const toggle = document.querySelector("#show-conversations");
const more = document.querySelector("#more-conversations");

/** Turns the list on; `open(id, turns)` shows a conversation, `current()` is the id of the one shown. */
export function showConversations(open, current) {
  let position = 0;

  async function load() {
    const page = await listConversations(position);
    list.append(...page.memories.map(makeConversation));
    position = page.next_token ?? 0;
    more.hidden = !position;
    if (!list.children.length) list.append(translate("noConversations"));
  }

  function makeConversation({ memory_id: id, name }) {
    const button = (text, action) => makeButton({ className: "quiet", textContent: text }, action);
    const title = button(name, async () => open(id, await readConversation(id)));
    title.dir = "auto";
    const rename = button(translate("rename"), async () => {
      const value = prompt(translate("newName"), title.textContent)?.trim();
      if (!value) return;
      await renameConversation(id, value);
      title.textContent = value;
    });
    const remove = button(translate("delete"), async () => {
      if (!confirm(translate("confirmDelete", { name: title.textContent }))) return;
      await deleteConversation(id);
      item.remove();
      if (current() === id) open();
    });
    for (const each of [rename, remove]) {
      each.setAttribute("aria-label", `${each.textContent}: ${name}`);
    }
    const item = makeItem(title, rename, remove);
    return item;
  }

  function reload() {
    position = 0;
    list.replaceChildren();
    return load();
  }

  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    panel.hidden = !panel.hidden;
    toggle.setAttribute("aria-expanded", String(!panel.hidden));
    if (!panel.hidden) reload();
  });
  more.addEventListener("click", load);
}
