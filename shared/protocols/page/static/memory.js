// Stored conversations, by OpenSearch's memory API.

import { readJson, ROUTES, writeJson } from "./client.js";

const MEMORY = ROUTES.conversations;
const MAX_LENGTH = 70_000; // characters of a turn; the API accepts 80,000
const MAX_BRACKETS = 1_900; // of the additional information; the API accepts 2,000

/** Returns a page of the stored conversations, the newest first: `memories`, `next_token`. */
export const listConversations = (position = 0) =>
  readJson(`${MEMORY}?max_results=100&next_token=${position}`);

/** Returns the turns of a stored conversation, the oldest first. */
export async function readConversation(id) {
  const turns = [];
  let position = 0;
  do {
    const path = `${MEMORY}/${id}/messages?max_results=100&next_token=${position}`;
    const page = await readJson(path);
    turns.push(...page.messages);
    position = page.next_token;
  } while (position);
  return turns.map(parseTurn);
}

/**
 * Parses a stored turn. Its additional information is the app's list of passages, or what this page
 * writes: an object with `sources` (that list), `replaced`, `ended` ("stopped", "failed"), `images`.
 */
function parseTurn({ message_id: id, input: question, response: text, additional_info: info }) {
  const { sources = [], replaced = false, ended = "", images = 0 } = parseInfo(info);
  const lines = Array.isArray(sources) ? sources.map(String) : [];
  return { id, question, text, sources: lines, replaced, ended, images };
}

function parseInfo(info) {
  if (info && typeof info === "object") return info;
  if (info === "replaced") return { replaced: true }; // written by earlier versions of the page
  try {
    const value = JSON.parse(info);
    return Array.isArray(value) ? { sources: value } : (value ?? {});
  } catch {
    return {}; // of another client
  }
}

/** Adds a turn whose answer the app has not stored, since it was stopped or has failed. */
export async function storeTurn(id, { question, text, ...info }, options) {
  const turn = { input: question, response: text, origin: "chat", additional_info: fit(info) };
  return (await writeJson(`${MEMORY}/${id}/messages`, "POST", turn, options)).message_id;
}

/** Marks a stored turn as replaced by the next one, or not. */
export function markTurn(turnId, info, options) {
  return writeJson(`${MEMORY}/message/${turnId}`, "PUT", { additional_info: fit(info) }, options);
}

/** Returns the newest stored turn of a conversation, parsed, or undefined. */
export async function readNewest(id) {
  const { interactions } = await readJson(`${MEMORY}/conversation/${id}?max_results=1`);
  const [newest] = interactions.map((turn) => ({ ...turn, message_id: turn.interaction_id }));
  return newest && parseTurn(newest);
}

/** Leaves out passages that are too much for the API: the turn is worth more than they are. */
function fit(info) {
  const json = JSON.stringify(info);
  const isSmall = json.length < MAX_LENGTH && json.split(/[[{]/).length < MAX_BRACKETS;
  return isSmall ? info : { ...info, sources: [] };
}

/** Returns the name of a conversation. */
export const readName = async (id) => (await readJson(`${MEMORY}/${id}`)).name;
export const renameConversation = (id, name) => writeJson(`${MEMORY}/${id}`, "PUT", { name });
export const deleteConversation = (id, options) =>
  readJson(`${MEMORY}/${id}`, { ...options, method: "DELETE" });
