// One scenario on the chat page, in Firefox, by Puppeteer: node firefox.mjs <program> <address> <scenario>
// Fails for an uncaught error of the page and for a violation of its policy.
import assert from "node:assert/strict";

import puppeteer from "puppeteer-core";

const [executablePath, address, scenario] = process.argv.slice(2);
const options = { browser: "firefox", executablePath, headless: true };
const browser = await puppeteer.launch(options);
const page = await browser.newPage();
await page.setViewport({ width: 1280, height: 860 });
const problems = [];
page.on("pageerror", (error) => problems.push(String(error)));
page.on("console", (message) => {
  if (/Content-Security-Policy|Content Security Policy/i.test(message.text())) problems.push(message.text());
});
page.setDefaultTimeout(20_000); // milliseconds; only a hang takes so long

const locate = (selector) => page.locator(selector);
const click = (selector) => locate(selector).click();
const named = (name) => `button[aria-label="${name}"]`;
const text = (selector) => page.$eval(selector, (element) => element.textContent.trim());
const isShown = (selector) => page.$eval(selector, (element) => element.checkVisibility());
const turns = ".turn .words";

/** Waits until a function of the page returns true; it may get a value. */
const until = (test, ...values) => page.waitForFunction(test, {}, ...values);

async function open(path = "/") {
  await page.goto(`${address}${path}`);
  await locate("#question:enabled").wait();
}

async function ask(question) {
  await page.type("#question", question);
  await page.keyboard.press("Enter");
}

async function askAndWait(question) {
  await ask(question);
  await until(() => [...document.querySelectorAll(".turn .retry")].at(-1)?.checkVisibility());
}

const untilText = (selector, wanted) => until(
  (each, value) => document.querySelector(each)?.textContent.trim() === value, selector, wanted,
);

/** Stores a conversation by the memory API. Returns its id. */
async function store(input, response) {
  const send = async (path, body) => {
    const headers = { "Content-Type": "application/json" };
    const reply = await fetch(`${address}/_plugins/_ml/memory${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return reply.json();
  };
  const { memory_id: id } = await send("", { name: input });
  await send(`/${id}/messages`, { input, response });
  return id;
}

const SCENARIOS = {
  async "an answer streams and its source is shown"() {
    await open();
    await askAndWait("say The deductible [plans/northwind_standard.md].");
    await click(".turn .citation");
    assert.equal(await text("#source h2"), "plans/northwind_standard.md");
    await page.keyboard.press("Escape");
    await until(() => document.activeElement.matches("a.citation"));
  },
  async "an answer is stopped and stays"() {
    await open();
    await ask("say begun; wait for firefox");
    await untilText(".turn .text", "begun");
    await click("#stop");
    await untilText(".turn .status", "You stopped this answer.");
    await until(() => document.querySelector(".turn .link").checkVisibility()); // it is stored
    await page.reload();
    await untilText(".turn .text", "begun");
  },
  async "a question is edited and its versions are paged"() {
    await open();
    await askAndWait("say one");
    await click(named("Edit"));
    await page.keyboard.type(" and two");
    await page.keyboard.press("Enter");
    await untilText(".turn .text", "one and two");
    await until(() => document.querySelector(".retry").checkVisibility());
    await click(named("Previous version"));
    await untilText(".turn .text", "one");
    assert.equal(await text(".versions span"), "1 of 2");
  },
  async "a conversation is renamed, deleted and restored"() {
    await open();
    await askAndWait("say listed in firefox");
    await locate("#conversations li a").hover();
    await click(named("Rename: say listed in firefox"));
    await page.keyboard.type("Renamed");
    await page.keyboard.press("Enter");
    await untilText("#conversations li a", "Renamed");
    await locate("#conversations li a").hover();
    await click(named("Delete: Renamed"));
    await until(() => !document.querySelector(".turn"));
    await click("#notice button");
    await untilText(turns, "say listed in firefox");
  },
  async "reload and Back keep the conversation"() {
    await open();
    await askAndWait("say first");
    await click("#new-chat");
    await askAndWait("say second");
    await page.reload();
    await untilText(".turn .text", "second");
    await page.goBack();
    await untilText(".turn .text", "first");
  },
  async "options are kept and theme and language are chosen"() {
    await open();
    await click("#show-options");
    await page.type("[name=top]", "3");
    await page.select("#theme", "dark");
    await page.select("#language", "de");
    await untilText("#options-title", "Optionen");
    await page.keyboard.press("Escape");
    await page.reload();
    await untilText("#active-options li", "Textstellen: 3 ×");
    const background = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    assert.equal(background, "rgb(22, 24, 29)");
  },
  async "a failure is explained and asked again"() {
    await open();
    await askAndWait("refuse with outage");
    assert.match(await text(".turn .error"), /The app could not answer \(503\)/);
    await click(named("Ask again"));
    await until(() => document.querySelector(".turn .error").checkVisibility());
    assert.equal((await page.$$(".turn")).length, 1);
  },
  async "tables, lists, code and formulas are shown"() {
    const table = "| a | b |\n|---|--:|\n| 1 | 2 |\n\n3. three\n\n```python\nx = 1\n```\n\n\\(\\sqrt{x}\\)";
    await open(`/#c=${await store("What is shown?", table)}`);
    await until(() => document.querySelector(".turn .text math"));
    const start = await page.$eval(".turn .text ol", ({ start }) => start);
    const align = await page.$eval(".turn .text td:last-child", (cell) => getComputedStyle(cell).textAlign);
    assert.deepEqual([start, align.replace("-moz-", "")], [3, "right"]);
    await until(() => document.querySelector(".turn .text pre .hljs-number"));
  },
  async "a phone has a drawer, and nothing scrolls sideways"() {
    await page.setViewport({ width: 360, height: 740 });
    await open();
    await askAndWait("say on a phone");
    await click("#show-conversations");
    await until(() => document.activeElement.id === "search-conversations");
    await page.keyboard.press("Escape");
    assert.equal(await isShown("#conversations"), false);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
  },
  async "an answer is copied with its formatting"() {
    await open();
    await askAndWait("say **one**");
    await click(named("Copy"));
    await locate(named("Copied")).wait();
  },
};

try {
  await SCENARIOS[scenario]();
  assert.deepEqual(problems, []);
} finally {
  await browser.close();
}
