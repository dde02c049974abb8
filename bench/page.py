"""The page in a browser: first paint, first word, frames: `python -m bench.page`.

`TEST_BROWSER` names the browser; playwright is in `requirements-browser.txt`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from playwright.sync_api import Browser, Page

from tests.support.browser.chromium import run_browser
from tests.support.browser.echo import ECHO, PARAGRAPH
from tests.support.browser.page import ask, open_long_conversation
from tests.support.servers import Server, run_server

FIRST_WORD = """() => new Promise((resolve) => {
  new MutationObserver((_, observer) => {
    if (!document.querySelector(".turn .text")?.textContent) return;
    observer.disconnect();
    resolve(performance.now());
  }).observe(document.body, { childList: true, subtree: true });
})"""
# A slow phone: 150 ms, 1.6 Mbit/s, a processor four times slower.
SLOW_LINE = {
    "offline": False,
    "latency": 150,
    "downloadThroughput": 1_600_000 / 8,
    "uploadThroughput": 750_000 / 8,
}
SLOW_PROCESSOR = 4
RECORD_LOAD = """
  let [shift, use] = [0, 0];
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) shift += value;
  }).observe({ type: "layout-shift", buffered: true });
  new MutationObserver(() => {
    if (use || document.body.inert || !document.querySelector("#question:enabled")) return;
    use = performance.now();
  }).observe(document, { attributes: true, childList: true, subtree: true });
  window.loaded = () => {
    const files = performance.getEntriesByType("resource");
    const [page] = performance.getEntriesByType("navigation");
    return {
      paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
      use,
      shift,
      kilobytes: [page, ...files].reduce((sum, { encodedBodySize: size }) => sum + size, 0) / 1000,
    };
  };
"""
RECORD_FRAMES = """() => {
  window.frames_ = [];
  let last = performance.now();
  const record = (now) => {
    window.frames_.push(now - last);
    last = now;
    requestAnimationFrame(record);
  };
  requestAnimationFrame(record);
}"""


def first_paint(page: Page, url: str) -> float:
    """Return the milliseconds from the navigation to the first contentful paint."""
    page.goto(url)
    page.locator("#question:enabled").wait_for()
    entry = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    return float(page.evaluate(entry))


def slow_load(browser: Browser, url: str) -> dict[str, float]:
    """Return what a first visit takes over the throttled line, on the throttled processor."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, locale="en")
    page = context.new_page()
    throttle = context.new_cdp_session(page)
    throttle.send("Network.enable")
    throttle.send("Network.emulateNetworkConditions", SLOW_LINE)
    throttle.send("Emulation.setCPUThrottlingRate", {"rate": SLOW_PROCESSOR})
    page.add_init_script(RECORD_LOAD)
    page.goto(url)
    page.locator("#question:enabled").wait_for()
    page.wait_for_timeout(1000)  # a shift may come after the first use
    loaded: dict[str, float] = page.evaluate("window.loaded()")
    context.close()
    return loaded


def first_word(page: Page, server: Server) -> tuple[float, float]:
    """Return the milliseconds to the first word in the page, and to the first delta by HTTP."""
    page.goto(server.url)
    page.locator("#question:enabled").fill("hello world")
    page.evaluate(f"window.firstWord = ({FIRST_WORD})(); window.sent = performance.now()")
    page.keyboard.press("Enter")
    shown = page.evaluate("window.firstWord.then((at) => at - window.sent)")
    with server.client() as client:
        start = time.perf_counter()
        question = {"messages": [{"role": "user", "content": "hello world"}]}
        with client.stream("POST", "/chat/stream", json=question) as response:
            lines = response.iter_lines()
            next(lines)
            next(lines)
            by_http = (time.perf_counter() - start) * 1000
    return float(shown), by_http


def frames(page: Page, size: int) -> list[float]:
    """Return the milliseconds of each frame while an answer of `size` characters streams."""
    page.locator("#question:enabled").wait_for()
    ask(page, f"long {size}")
    page.evaluate(RECORD_FRAMES)  # behind what the driver itself costs: it reads all turns
    page.locator(".turn:last-child .copy:visible").wait_for(timeout=120_000)
    return [float(frame) for frame in page.evaluate("window.frames_")]


def frames_alone(page: Page, server: Server, size: int) -> list[float]:
    """Return the frames of an answer in a new conversation."""
    page.goto(server.url)
    return frames(page, size)


def frames_behind(page: Page, server: Server, turns: int, size: int) -> list[float]:
    """Return the frames of an answer behind `turns` stored turns."""
    open_long_conversation(page, server, turns, PARAGRAPH * 5)
    return frames(page, size)


def frame_rows(name: str, times: list[float]) -> dict[str, float]:
    """Return the rows of the table about frames."""
    return {
        f"frame {name}, median, ms": median(times),
        f"frame {name}, p95, ms": quantiles(times, n=20)[-1],
        f"frame {name}, longest, ms": max(times),
    }


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument("--size", type=int, default=100_000, help="of a long answer, in characters")
    parser.add_argument("--turns", type=int, default=200, help="of a long conversation")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server("dev", Path(folder), {**ECHO, "MEMORY_FILE": f"{folder}/memory.db"}) as server,
        run_browser() as browser,
    ):
        rounds = range(options.rounds)
        paints = [first_paint(browser.new_page(), server.url) for _ in rounds]
        loads = [slow_load(browser, server.url) for _ in rounds]
        words = [first_word(browser.new_page(), server) for _ in rounds]
        alone = frames_alone(browser.new_page(), server, options.size)
        behind = frames_behind(browser.new_page(), server, options.turns, options.size)
    rows = {
        "first paint, ms": median(paints),
        "slow line: first paint, ms": median(load["paint"] for load in loads),
        "slow line: first use, ms": median(load["use"] for load in loads),
        "slow line: layout shift": max(load["shift"] for load in loads),
        "all files, compressed, kB": median(load["kilobytes"] for load in loads),
        "first word in the page, ms": median(shown for shown, _ in words),
        "first delta by HTTP, ms": median(by_http for _, by_http in words),
        **frame_rows(f"of {options.size:,} characters", alone),
        **frame_rows(f"behind {options.turns} turns", behind),
    }
    for name, value in rows.items():
        print(f"{name:<48}{value:>10.2f}")


if __name__ == "__main__":
    main()
