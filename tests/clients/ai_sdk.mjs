// Drives the AI SDK and two of its providers by the Responses API against a running app; prints
// what it saw.
// node ai_sdk.mjs <address> <openai | open-responses> <store: true | false> [user]
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenResponses } from "@ai-sdk/open-responses";
import { generateText, isStepCount, jsonSchema, Output, streamText, tool } from "ai";

const [address, provider, store, user] = process.argv.slice(2);
const common = { apiKey: "none", headers: user ? { "x-ms-client-principal-id": user } : {} };
const app =
  provider === "openai"
    ? createOpenAI({ ...common, baseURL: `${address}/v1` })
    : createOpenResponses({ ...common, name: "app", url: `${address}/v1/responses` });
const page = "plans/northwind_health_plus.pdf#page=2";
const cited = `What does Northwind Health Plus include?; say 漢字: ; say [${page}]; say .`;
const number = { type: "object", properties: { q: { type: "number" } }, required: ["q"] };
const schema = jsonSchema({ ...number, additionalProperties: false });
const f = tool({ inputSchema: schema, execute: ({ q }) => `say Sunny ${q}` });
const options = {
  model: app("command_model"),
  maxRetries: 0,
  ...(store === "false" && { providerOptions: { openai: { store: false } } }),
};
const withTools = { ...options, tools: { f }, stopWhen: isStepCount(2) };

async function streamed(request) {
  const result = streamText({ ...request, onError: () => {} });
  const seen = { texts: [], sources: [], errors: [] };
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") seen.texts.push(part.text);
    if (part.type === "source") seen.sources.push(part);
    if (part.type === "error") seen.errors.push(part.error.message);
  }
  return { ...seen, finishReason: await result.finishReason };
}

async function answer(work) {
  try {
    const { text, sources, usage, responseMessages, output } = await work;
    return { text, sources, usage, messages: responseMessages, output };
  } catch (error) {
    return { error: error.message, status: error.statusCode };
  }
}

const first = [{ role: "user", content: "call f" }];
const withTool = await answer(generateText({ ...withTools, messages: first }));
const again = [...first, ...(withTool.messages ?? []), { role: "user", content: "list questions" }];
const structured = { ...options, output: Output.object({ schema }), prompt: 'say {"q": 1}' };
const failures = ["refuse with 429", "refuse with content filter"];
const seen = {
  whole: await answer(generateText({ ...options, prompt: cited })),
  stream: await streamed({ ...options, prompt: cited }),
  withTool,
  again: await answer(generateText({ ...withTools, messages: again })),
  withToolStreamed: await streamed({ ...withTools, messages: first }),
  structured: (await answer(generateText(structured))).output,
  failures: await Promise.all(failures.map((prompt) => answer(generateText({ ...options, prompt })))),
  failure: await streamed({ ...options, prompt: "say Half; fail with outage" }),
};
console.log(JSON.stringify(seen));
