// Drives OpenAI's own npm package against a running app; prints what it saw.
// node openai.mjs <address> <client> <scenario> [data source as JSON]
import { all, connect, thrown } from "./openai_client.mjs";

const [address, client, scenario, source] = process.argv.slice(2);
const apiKey = process.env.CHAT_API_KEY ?? "none";
const openai = connect(address, client, "2024-05-01-preview", { apiKey });
const model = process.env.CHAT_MODEL_NAME ?? "command_model";
const create = (content, more) =>
  openai.chat.completions.create({ model, messages: [{ role: "user", content }], ...more });
const marker = "say [plans/northwind_health_plus.pdf#page=2]";
const cited = `What does Northwind Health Plus include?; ${marker}; say , and; ${marker}`;
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
  cited: async () => {
    const messages = [{ role: "user", content: cited }];
    const whole = await openai.chat.completions.create({ model, messages });
    const runner = openai.chat.completions.stream({ model, messages });
    return [whole, await runner.finalChatCompletion()].map((it) => it.choices[0].message);
  },
  runTools: async () => {
    const answered = [];
    for (const stream of [false, true]) {
      const called = { ...tools[0].function, parse: JSON.parse, function: ({ q }) => `say Sunny ${q}` };
      const messages = [{ role: "user", content: "call f" }];
      const more = { model, messages, stream, tools: [{ type: "function", function: called }] };
      answered.push(await openai.chat.completions.runTools(more).finalContent());
    }
    return answered;
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
  "source, folded": async () => {
    const messages = [{ role: "user", content: "deductible" }];
    const body = { model, messages, data_sources: [JSON.parse(source)] };
    return (await openai.chat.completions.stream(body).finalChatCompletion()).choices[0].message;
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
process.exit(0);
