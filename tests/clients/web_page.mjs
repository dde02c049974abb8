// Runs the program of docs/web-page.md in a page of a few elements; prints what a reader sees.
// node web_page.mjs <address> <question>...   (a question for each time that the form is sent)
import { readFile } from "node:fs/promises";

const [address, ...questions] = process.argv.slice(2);
const page = await readFile(new URL("../../docs/web-page.md", import.meta.url), "utf-8");
const program = /```js\n(.*?)```/s.exec(page)[1].replace("http://localhost:7071", address);

const elements = {};
const element = (name) => ({
  name,
  value: "",
  textContent: "",
  children: [],
  replaceChildren(...children) {
    this.children = children;
  },
  addEventListener(kind, listener) {
    this[kind] = listener;
  },
});
globalThis.document = {
  querySelector: (selector) => (elements[selector] ??= element(selector)),
  createElement: element,
};

// The worst that a network does: each byte comes alone.
const network = fetch;
globalThis.fetch = async (...request) => {
  const response = await network(...request);
  const bytes = new TransformStream({
    transform(chunk, controller) {
      for (const byte of chunk) controller.enqueue(Uint8Array.of(byte));
    },
  });
  return new Response(response.body.pipeThrough(bytes), response);
};

await import(`data:text/javascript,${encodeURIComponent(program)}`);
const { form, input, button, "#answer": answer, "#error": error } = elements;
const seen = [];
for (const question of questions) {
  input.value = question;
  await form.submit({ preventDefault() {} });
  const parts = answer.children.map((part) => part.href ?? part);
  seen.push({ parts, error: error.textContent, input: input.value, disabled: button.disabled });
}
console.log(JSON.stringify(seen));
