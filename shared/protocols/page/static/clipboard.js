// Copies for other programs.

import { showNotice } from "./elements.js";
import { translate } from "./text.js";

/**
 * Copies a text, and HTML for programs that paste formatted text, if there is any. Returns whether the
 * browser lets the page do so; if not, a notice says why.
 */
export async function copyText(text, html = "") {
  const parts = { "text/plain": text, ...(html && { "text/html": html }) };
  const blobs = Object.entries(parts).map(([type, part]) => [type, new Blob([part], { type })]);
  try {
    await navigator.clipboard.write([new ClipboardItem(Object.fromEntries(blobs))]);
    return true;
  } catch {
    showNotice(translate("errorCopy"));
    return false;
  }
}
