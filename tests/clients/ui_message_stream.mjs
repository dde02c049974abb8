// Drives the chat of the AI SDK, without a page around it, against a running app; prints what it
// saw.
// node ui_message_stream.mjs <address> <ai5 | ai6 | ai> <scenario> [<a file part, as JSON>]
const [address, name, scenario, file] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport } = await import(name);
const api = `${address}/api/chat`;
const PNG =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQAAAAA3bvkkAAAACklEQVR4nGMAAQAABQABDQ0tuhsAAAAASUVORK5CYII=";

const seen = { data: [], requests: [], statuses: [], errors: [] };

const state = {
  status: "ready",
  error: undefined,
  messages: [],
  pushMessage: (message) => state.messages.push(message),
  popMessage: () => state.messages.pop(),
  replaceMessage: (index, message) => (state.messages[index] = message),
  snapshot: structuredClone,
};

async function recorded(url, request) {
  if (request.body) seen.requests.push(JSON.parse(request.body));
  const response = await fetch(url, request);
  seen.statuses.push(response.status);
  seen.headers = Object.fromEntries(response.headers);
  return response;
}

function makeChat(options = {}) {
  return new (class extends AbstractChat {})({
    state,
    transport: new DefaultChatTransport({ api, fetch: recorded, ...options }),
    onData: (part) => seen.data.push(part),
    onError: (error) => seen.errors.push(error.message),
  });
}

const chat = makeChat();
const overrides = (values) => ({ body: { overrides: values } });
const scenarios = {
  answer: () => chat.sendMessage({ text: "say Yes [plans/northwind_standard.md]; say  漢字" }),
  async history() {
    await chat.sendMessage({ text: "say one" });
    await chat.sendMessage({ text: "list questions" });
  },
  async regenerate() {
    await chat.sendMessage({ text: "say one" });
    await chat.sendMessage({ text: "list questions" });
    await chat.regenerate();
  },
  async edit() {
    await chat.sendMessage({ text: "say one" });
    await chat.sendMessage({ text: "say two" });
    await chat.sendMessage({ text: "list questions", messageId: chat.messages[2].id });
  },
  async failedFirst() {
    await chat.sendMessage({ text: "refuse with 429" });
    await chat.sendMessage({ text: "list questions" });
  },
  async image() {
    const files = [{ type: "file", mediaType: "image/png", filename: "dot.png", url: PNG }];
    await chat.sendMessage({ text: "say seen", files });
  },
  document: () => {
    const url = "data:application/pdf;base64,JVBERi0=";
    const files = [{ type: "file", mediaType: "application/pdf", filename: "a.pdf", url }];
    return chat.sendMessage({ text: "say seen", files });
  },
  async documents() {
    const badge = JSON.parse(file);
    await chat.sendMessage({ text: "Which animal is on the secret badge?", files: [badge] });
    await chat.sendMessage({ text: "And which plant is on the secret badge?" });
  },
  async documentInParts() {
    const text = "Which animal is on the secret badge?";
    await chat.sendMessage({ parts: [JSON.parse(file), { type: "text", text }] });
  },
  overrides: () => chat.sendMessage({ text: "say Yes" }, overrides({ top: 1, seed: null })),
  wrongOverride: () => chat.sendMessage({ text: "say Yes" }, overrides({ top: "many" })),
  followups: () =>
    chat.sendMessage(
      { text: "say Yes <<How much?>>; say <<Why?>>" },
      overrides({ suggest_followup_questions: true }),
    ),
  notice: () => chat.sendMessage({ text: "say Yes" }, overrides({ semantic_ranker: true })),
  refused: () => chat.sendMessage({ text: "refuse with 429 after 7" }),
  broken: () => chat.sendMessage({ text: "say Half; fail with outage" }),
  bug: () => chat.sendMessage({ text: "say Half; fail with bug" }),
  async stopped() {
    const name = `stopped-${process.hrtime.bigint()}`;
    const answer = chat.sendMessage({ text: `open as ${name}; say Half; wait for ${name}` });
    while (!JSON.stringify(state.messages).includes('"Half"')) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await chat.stop();
    await answer;
    seen.name = name;
  },
  resume: () => chat.resumeStream(),
  lastOnly: () => {
    const prepareSendMessagesRequest = ({ id, messages }) => ({
      body: { id, message: messages.at(-1) },
    });
    return makeChat({ prepareSendMessagesRequest }).sendMessage({ text: "say Yes" });
  },
};
await scenarios[scenario]();
const { messages, status } = state;
console.log(JSON.stringify({ ...seen, messages, status }));
