// What a person has chosen for this browser: theme, language, options, the list of conversations.

/** Returns a stored value, or null. A browser may refuse its storage. */
export function readPreference(name) {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return null;
  }
}

/** Stores a value; an empty one is forgotten. */
export function storePreference(name, value) {
  try {
    if (value === null || value === "") localStorage.removeItem(name);
    else localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // The page works without: the choice lasts until it is closed.
  }
}

const unsaved = {}; // what the browser refuses to keep for the tab

/** Returns a text that is kept for this tab, or null. */
export function readForTab(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return unsaved[name] ?? null;
  }
}

/** Keeps a text for this tab; an empty one is forgotten. */
export function storeForTab(name, text) {
  unsaved[name] = text || null;
  try {
    if (text) sessionStorage.setItem(name, text);
    else sessionStorage.removeItem(name);
  } catch {
    // It lasts until the page is closed.
  }
}

/** Shows the theme that was chosen, or that of the system. */
export function applyTheme() {
  document.documentElement.dataset.theme = readPreference("theme") ?? "";
}
