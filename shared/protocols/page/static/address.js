// The address of a conversation: `#c=ID`, and of one of its turns: `#c=ID&turn=N`, from 1.

/** Returns the conversation and the turn that the address of the page names. */
export function readAddress() {
  const values = new URLSearchParams(location.hash.slice(1));
  return { id: values.get("c"), turn: Number(values.get("turn")) || 0 };
}

/** Returns the whole address of a conversation, or of one of its turns; without an id, of a new one. */
export function addressOf(id, turn = 0) {
  const values = new URLSearchParams(id ? { c: id } : {});
  if (turn) values.set("turn", turn);
  return `${location.origin}${location.pathname}${id ? `#${values}` : ""}`;
}

/** Shows another address: as a step that Back undoes, or instead of the present one. */
export function setAddress(id, { replace = false } = {}) {
  if (readAddress().id === id) return;
  history[replace ? "replaceState" : "pushState"](null, "", addressOf(id));
}
