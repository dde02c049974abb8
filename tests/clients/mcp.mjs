// Drives the official TypeScript clients of MCP against a running app; prints what they saw.
// node mcp.mjs <address> <1.x | legacy | auto | a version>
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [address, mode] = process.argv.slice(2);
const url = new URL(`${address}/mcp`);
const info = { name: "test", version: "1" };
const old = mode === "1.x";
const pinned = ["legacy", "auto"].includes(mode) ? mode : { pin: mode };
const client = old ? new Client1(info) : new Client(info, { versionNegotiation: { mode: pinned } });
const transport = old ? new Transport1(url) : new StreamableHTTPClientTransport(url);
const call = (name, args, options) =>
  client.callTool({ name, arguments: args }, ...(old ? [undefined, options] : [options]));

async function thrown(work) {
  try {
    return { nothing: await work() };
  } catch (error) {
    return { code: error.code, data: error.data };
  }
}

await client.connect(transport);
const { tools } = await client.listTools(); // from now on results are validated
const question = "What does Northwind Health Plus include?";
const found = (await call("search", { query: question, top: 2 })).structuredContent.results;
const progress = [];
const order = `${question}; say See ; say [${found[0].id}]`;
const onprogress = (report) => progress.push(report.progress);
const seen = {
  version: transport.protocolVersion,
  tools: tools.map((tool) => tool.name),
  found,
  fetched: (await call("fetch", { id: found[0].id })).structuredContent,
  answer: await call("ask", { question: order }, { onprogress }),
  progress,
  toolError: await call("ask", { question: "refuse with 429" }),
  unknownTool: await thrown(() => call("unknown", {})),
  resources: (await client.listResources()).resources.map((resource) => resource.name),
  templates: (await client.listResourceTemplates()).resourceTemplates,
  unknownResource: await thrown(() => client.readResource({ uri: "document:///unknown.md" })),
};
const link = seen.answer.content[1];
seen.text = (await client.readResource({ uri: link.uri })).contents[0].text;
await client.close();
console.log(JSON.stringify(seen));
