// Drives OpenAI's own npm package by the Responses API against a running app; prints what it saw.
// node responses.mjs <address> <v1 | azure> <user>
import { all, connect, thrown } from "./openai_client.mjs";

const [address, client, user] = process.argv.slice(2);
const defaultHeaders = { "x-ms-client-principal-id": user };
const openai = connect(address, client, "2025-04-01-preview", { defaultHeaders });
const page = "plans/northwind_health_plus.pdf#page=2";
const cited = `What does Northwind Health Plus include?; say 漢字: ; say [${page}]; say .`;
const tools = [{ type: "function", name: "f", parameters: { type: "object" }, strict: false }];
const output = { type: "function_call_output", call_id: "call_1", output: "say Sunny" };
const model = "command_model";
const create = (input, more) => openai.responses.create({ model, input, ...more });

const calling = await create("call f", { tools });
const items = [{ role: "user", content: "call f" }, ...calling.output, output];
const stored = await create(cited);
const seen = {
  whole: stored,
  stream: await all(create(cited, { stream: true })),
  helper: await openai.responses.stream({ model, input: "say a; call f", tools }).finalResponse(),
  calls: calling.output,
  continued: (await create([output], { previous_response_id: calling.id })).output_text,
  repeated: (await create(items, { store: false })).output_text,
  questions: (await create("list questions", { previous_response_id: stored.id })).output_text,
  retrieved: await openai.responses.retrieve(stored.id),
  inputItems: await all(openai.responses.inputItems.list(stored.id)),
  deleted: await openai.responses.delete(stored.id),
  errors: [
    await thrown(() => create("refuse with 429")),
    await thrown(() => create("refuse with content filter", { stream: true })),
    await thrown(() => create("say x", { tools: [{ type: "web_search" }] })),
    await thrown(() => create("say x", { model: "unknown" })),
    await thrown(() => create("say x", { previous_response_id: stored.id })),
    await thrown(() => openai.responses.retrieve(stored.id)),
    await thrown(() => openai.responses.cancel(calling.id)),
  ],
  failure: (await all(create("say Half; fail with outage", { stream: true }))).at(-1),
};
for await (const part of await create("open as npm-responses; say x; wait for never", { stream: true }))
  if (part.type === "response.output_text.delta") break;
console.log(JSON.stringify(seen));
process.exit(0);
