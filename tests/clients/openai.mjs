// Drives OpenAI's own npm package against a running app; prints what it saw.
// node openai.mjs <address> <client> <scenario> [data source as JSON]
import { all, connect, thrown } from "./openai_client.mjs";

const [address, client, scenario, source] = process.argv.slice(2);
const apiKey = process.env.CHAT_API_KEY ?? "none";
const openai = connect(address, client, "2024-05-01-preview", { apiKey });
const model = process.env.CHAT_MODEL_NAME ?? "command_model";
const create = (content, more) =>
  openai.chat.completions.create({ model, messages: [{ role: "user", content }], ...more });
const tools = [{ type: "function", function: { name: "f", parameters: { type: "object" } } }];

const scenarios = {
  whole: () => create("say Yes 漢字"),
  stream: () => all(create("say Yes; say 漢字", { stream: true })),
  usage: () => all(create("say Yes", { stream: true, stream_options: { include_usage: true } })),
  helper: async () => {
    const messages = [{ role: "user", content: "say Yes; call f" }];
    const runner = openai.chat.completions.stream({ model, messages, tools });
    return (await runner.finalChatCompletion()).choices[0];
  },
  citations: async () => {
    const content = process.env.QUESTION;
    const runner = openai.chat.completions.stream({ model, messages: [{ role: "user", content }] });
    return [(await runner.finalChatCompletion()).choices[0], (await create(content)).choices[0]];
  },
  tools: () => create("call f", { tools }),
  busy: () => thrown(() => create("refuse with 429 after 7")),
  filtered: () => thrown(() => create("refuse with content filter", { stream: true })),
  wrong: () => thrown(() => create("say x", { n: 2 })),
  unknown: () => thrown(() => create("say x", { model: "unknown" })),
  "mid-stream": () => thrown(() => all(create("say Half; fail with outage", { stream: true }))),
  abort: async () => {
    const stream = await create("open as npm-openai; say x; wait for never", { stream: true });
    for await (const part of stream) if (part.choices[0].delta.content) break;
    return null;
  },
  models: () => all(openai.models.list()),
  // What On Your Data's users send; the types of the package do not know it.
  source: () => create("deductible", { data_sources: [JSON.parse(source)] }),
  "source, streaming": () =>
    all(create("deductible", { data_sources: [JSON.parse(source)], stream: true })),
};

console.log(JSON.stringify(await scenarios[scenario]()));
process.exit(0);
