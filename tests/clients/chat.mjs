// Drives the published clients of the chat protocol against a running app; prints what they saw.
// node chat.mjs <address> <scenario>
import { AIChatProtocolClient } from "@microsoft/ai-chat-protocol";
import ndjson from "ndjson-readablestream";

const [address, scenario] = process.argv.slice(2);
const readNDJSONStream = ndjson.default ?? ndjson;
const client = new AIChatProtocolClient(`${address}/chat`);
// retries switched off where an error is looked at: they would ask four times
const once = new AIChatProtocolClient(`${address}/chat`, { retryOptions: { maxRetries: 0 } });
const ask = (content, files) => [{ role: "user", content, files }];
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQAAAAA3bvkkAAAACklEQVR4nGMAAQAABQABDQ0tuhsAAAAASUVORK5CYII=",
  "base64",
);

async function all(stream) {
  const seen = [];
  for await (const part of stream) seen.push(part);
  return seen;
}

async function thrown(work) {
  try {
    return { nothing: await work() };
  } catch (error) {
    return typeof error === "string" ? error : { name: error.name, message: error.message };
  }
}

async function lines(route, body) {
  const response = await fetch(`${address}${route}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const seen = [];
  for await (const line of readNDJSONStream(response.body)) seen.push(line);
  return seen;
}

const scenarios = {
  whole: () => client.getCompletion(ask("say Yes 漢字"), { sessionState: { a: [1, null] } }),
  stream: async () =>
    all(await client.getStreamedCompletion(ask("say Yes; say 漢字"), { sessionState: 7 })),
  "second turn": async () => {
    const first = await client.getCompletion(ask("say Yes"), { context: { overrides: { top: 1 } } });
    const messages = [...ask("say Yes"), first.message, ...ask("say Again")];
    return client.getCompletion(messages, { sessionState: first.sessionState });
  },
  "bad request": () => thrown(() => client.getCompletion([], {})),
  "bad request, streaming": () => thrown(() => client.getStreamedCompletion([], {})),
  "busy": () => thrown(() => once.getCompletion(ask("refuse with 429"))),
  "busy, streaming": () => thrown(() => once.getStreamedCompletion(ask("refuse with 429"))),
  "mid-stream error": () =>
    thrown(async () => all(await client.getStreamedCompletion(ask("say x; fail with outage")))),
  abort: async () => {
    const controller = new AbortController();
    const stream = await client.getStreamedCompletion(
      ask("open as npm-abort; say x; wait for never"),
      { abortSignal: controller.signal },
    );
    return thrown(async () => {
      for await (const part of stream) if (part.delta.content) controller.abort();
    });
  },
  // a Uint8Array is refused by this version of the client itself
  "File": () =>
    client.getCompletion(
      ask("say seen", [{ contentType: "image/png", data: new File([PNG], "a.png") }]),
    ),
  "Blob": async () =>
    all(
      await client.getStreamedCompletion(
        ask("say seen", [{ contentType: "image/png", data: new Blob([PNG]) }]),
      ),
    ),
  "a text as a file": () =>
    thrown(() =>
      client.getCompletion(ask("say x", [{ contentType: "image/png", data: new Blob(["text"]) }])),
    ),
  "ndjson 001": () => lines("/chat/stream", { messages: ask("say Yes; say 漢字") }),
  "ndjson 000": () => lines("/chat/stream", { messages: ask("say Yes"), session_state: 1 }),
  "ndjson 004": () => lines("/chat", { messages: ask("say Yes"), stream: true }),
  "ndjson input": () => lines("/chat/stream", { input: "say Yes" }),
  "ndjson error": () => lines("/chat/stream", { messages: ask("say Yes; fail with outage") }),
};

console.log(JSON.stringify((await scenarios[scenario]()) ?? null));
process.exit(0);
