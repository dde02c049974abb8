"""The states of the page, and the looks in which they are tested and pictured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from playwright.sync_api import Browser, Page, Route, expect

from tests.support.browser.page import VACATION

WIDTHS = (360, 768, 1280)
LANGUAGES = ("en", "de", "ar")
Theme = Literal["light", "dark"]
THEMES: Sequence[Theme] = ("light", "dark")
# All pairs of a width, a language and a theme, in half of their combinations.
LOOKS = tuple(
    (width, language, THEMES[(row + column) % 2])
    for row, width in enumerate(WIDTHS)
    for column, language in enumerate(LANGUAGES)
)
FORMATTED = r"""
## Benefits

| Plan | Deductible | Dental |
|:---|---:|:---:|
| Northwind Standard | $2,000 | no |
| Northwind Health Plus | $1,000 | yes |

3. The third step is `plan.compare()`.
4. The fourth is done.

> A plan is chosen once a year.

```python
def deductible(plan: str) -> int:
    # In dollars.
    return {"Standard": 2000, "Plus": 1000}[plan]
```

\[ \sum_{i=1}^{n} c_i \le \frac{D}{2} + \sqrt{x^2 + 1} \]
"""


def show_first_screen(page: Page) -> None:
    """Do nothing: the page shows it."""


def show_waiting(page: Page) -> None:
    """Ask what the app does not answer."""
    page.evaluate("void (window.fetch = () => new Promise(() => {}))")
    fill_and_send(page, VACATION)


def show_formatted(page: Page) -> None:
    """Show an answer with a table, code and a formula."""
    show_text(page, FORMATTED)


def show_text(page: Page, text: str) -> None:
    lines = (
        {"context": {"data_points": {"text": ["plans/a.md: A plan."]}, "thoughts": []}},
        {"delta": {"content": text}},
        {"context": {"finish_reason": "stop"}},
    )
    body = "".join(f"{json.dumps(line)}\n" for line in lines)
    page.route("**/chat/stream", lambda route: route.fulfill(body=body))
    fill_and_send(page, "Compare the plans.")
    expect(page.locator(".turn .retry")).to_be_visible()
    page.wait_for_timeout(1000)  # code and formulas are drawn by libraries that are loaded now


def show_source(page: Page) -> None:
    """Show the passage of a citation."""
    fill_and_send(page, VACATION)
    page.locator(".citations button").first.click()


def show_conversations(page: Page) -> None:
    """Show the list of conversations."""
    if page.locator("#conversations").is_hidden():
        page.locator("#show-conversations").click()
    expect(page.locator("#conversations li").first).to_be_visible()


def show_options(page: Page) -> None:
    """Show the options, one of them wrong."""
    page.locator("#show-options").click()
    page.locator("[name=top]").fill("99")


def show_error(page: Page) -> None:
    """Show a refusal."""
    failure = {"status": 429, "headers": {"Retry-After": "30"}, "json": {"error": "Busy."}}
    page.route("**/chat/stream", lambda route: route.fulfill(**failure))
    fill_and_send(page, VACATION)
    expect(page.locator(".turn .error")).to_be_visible()


def show_feedback(page: Page) -> None:
    """Show the form of an answer that did not help, with a copy of the answer."""

    def reply(route: Route) -> None:
        if route.request.method == "GET":
            route.fulfill(json={"comments": True, "copies": True, "copy_days": 90})
        else:
            route.fulfill(json={"copy_id": "0123456789abcdef" * 2})

    page.route("**/feedback", reply)
    fill_and_send(page, VACATION)
    page.locator(".rate[data-rating=down]").click()
    page.locator(".comment input").check()
    page.locator(".comment button").click()
    expect(page.locator(".comment p button")).to_be_visible()


def show_uploads(page: Page) -> None:
    """Show the user's documents, one in each state."""
    states = ("queued", "reading", "ready", "failed")
    reason = "Its content is not what its name says."
    uploads = [
        {"id": state, "filename": f"A report that is {state}.pdf", "state": state}
        | ({"reason": reason} if state == "failed" else {})
        for state in states
    ]
    answer = {"uploads": uploads, "max_bytes": 2**20, "max_uploads": 4}
    page.route("**/uploads", lambda route: route.fulfill(json=answer))
    page.evaluate("import('/page/uploads.js').then(({ showUploads }) => showUploads())")
    expect(page.locator("#uploads li").last).to_be_visible()


def fill_and_send(page: Page, question: str) -> None:
    """Ask a question, in any language of the page."""
    page.locator("#question").fill(question)
    page.keyboard.press("Enter")


STATES: Mapping[str, Callable[[Page], None]] = {
    "first-screen": show_first_screen,
    "waiting": show_waiting,
    "formatted": show_formatted,
    "source": show_source,
    "conversations": show_conversations,
    "options": show_options,
    "error": show_error,
    "feedback": show_feedback,
    "uploads": show_uploads,
}


def open_page(
    browser: Browser, url: str, theme: Theme, width: int, height: int = 860, language: str = "en"
) -> Page:
    """Open the page in a context of its own."""
    context = browser.new_context(
        color_scheme=theme,
        viewport={"width": width, "height": height},
        locale=language,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(url)
    expect(page.locator("#examples button").first).to_be_visible()
    return page
