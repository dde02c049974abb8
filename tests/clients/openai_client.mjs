// OpenAI's own npm package, in its two classes; what a stream and an error of it have.
import OpenAI, { AzureOpenAI } from "openai";

export function connect(address, client, apiVersion, options) {
  const common = { apiKey: "none", maxRetries: 0, ...options };
  return client === "azure"
    ? new AzureOpenAI({ ...common, endpoint: address, apiVersion })
    : new OpenAI({ ...common, baseURL: `${address}/${client}` });
}

export async function all(stream) {
  const parts = [];
  for await (const part of await stream) parts.push(part);
  return parts;
}

export async function thrown(work) {
  try {
    return { nothing: await work() };
  } catch (error) {
    const { status, code, param, message } = error;
    const after = error.headers?.get("retry-after") ?? null;
    return { name: error.constructor.name, status, code, param, message, after };
  }
}
