"""Nothing that a model, a document, a name or a title contains becomes active in the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.echo import run_echo
from tests.support.browser.hostile import HOSTILE_FORMULAS, HOSTILE_HTML, HOSTILE_MARKDOWN
from tests.support.browser.page import ask, open_list
from tests.support.servers import Server

# What an answer may consist of.
ALLOWED = (
    "A BLOCKQUOTE BR CODE DEL EM H1 H2 H3 H4 H5 H6 HR LI OL P PRE STRONG SUB SUP TABLE TBODY TD TH "
    "THEAD TR UL"
).split()
# The page itself makes headers and colours of code.
ELEMENTS = """it => [...it.querySelectorAll("*:not(.code, .code-header, .code-header *, pre span)")]
  .map((element) => element.tagName)"""


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app with a model that repeats the question, over documents with hostile names."""
    documents = dict[str, str]()
    for number, html in enumerate(HOSTILE_HTML):
        name = "".join(letter for letter in html if letter not in "/\t")[:60]
        documents[f"{number} {name}.md"] = f"# Topic {number} {html}\n\nzebra{number} {html}\n"
    with run_echo(tmp_path_factory.mktemp("echo"), documents) as server:
        yield server


@pytest.fixture
def quiet_page(page: Page, echo: Server) -> Iterator[Page]:
    """A page that must not run foreign code, nor send anything elsewhere."""
    requests = list[str]()
    page.on("request", lambda request: requests.append(request.url))
    page.goto(echo.url)
    yield page
    assert page.evaluate("window.hacked") is None
    assert [url for url in requests if not url.startswith((echo.url, "blob:"))] == []


@pytest.mark.parametrize("text", [*HOSTILE_HTML, *HOSTILE_MARKDOWN])
def test_answer_is_inert(quiet_page: Page, text: str) -> None:
    ask(quiet_page, text)
    expect(quiet_page.get_by_role("button", name="Copy", exact=True)).to_be_visible()
    answer = quiet_page.locator(".turn .text").last

    elements = answer.evaluate(ELEMENTS)
    links = answer.evaluate("it => [...it.querySelectorAll('a[href]')].map((a) => a.href)")
    assert set(elements) <= set(ALLOWED)
    assert [link for link in links if not link.startswith(("https://", "http://", "mailto:"))] == []
    handlers = answer.evaluate(
        "it => [...it.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())"
    )
    assert [name for name in handlers if name.startswith("on") or name == "style"] == []


# What stands outside of the formula, and where the page is narrower than its content.
OVERFLOW = """it => {
  const { left, right, top, bottom } = it.getBoundingClientRect();
  return [innerWidth, document.documentElement.scrollWidth, right - left, bottom - top];
}"""


@pytest.mark.parametrize("formula", HOSTILE_FORMULAS)
def test_formula_is_inert(quiet_page: Page, formula: str) -> None:
    ask(quiet_page, f"\\({formula}\\)\n\n$$\n{formula}\n$$\n\n\\(y\\)")
    expect(quiet_page.get_by_role("button", name="Copy", exact=True)).to_be_visible()
    answer = quiet_page.locator(".turn .text")
    expect(answer.locator("math").last).to_have_text("y")

    expect(answer.locator("a, img, [id], [href], [src], .citation")).to_have_count(0)
    window, document, width, height = answer.evaluate(OVERFLOW)
    assert document <= window
    assert width <= window
    assert height < 2500
    assert "hacked" not in (answer.locator("math").last.text_content() or "")
    # The page still has its own question field, and answers.
    ask(quiet_page, "**next**")
    expect(quiet_page.locator(".turn .text strong")).to_have_text("next")


@pytest.mark.parametrize("number", range(len(HOSTILE_HTML)))
def test_document_and_its_name_are_inert(quiet_page: Page, number: int) -> None:
    ask(quiet_page, f"zebra{number}")
    thoughts = quiet_page.locator(".thoughts")
    thoughts.get_by_text("How this answer was made").click()
    for step in thoughts.locator("details summary").all():
        step.click()

    expect(thoughts.locator("pre").nth(2)).to_contain_text(f"zebra{number}")


def test_cited_document_with_a_hostile_name_is_a_source(quiet_page: Page, echo: Server) -> None:
    question = {"messages": [{"role": "user", "content": "zebra1"}]}
    with echo.client() as client:
        context = client.post("/chat", json=question).json()["context"]
    citation = context["data_points"]["citations"][0]
    ask(quiet_page, f"See zebra1 [{citation}]")
    quiet_page.locator(".citations button").last.click()

    panel = quiet_page.get_by_role("complementary")
    expect(panel.get_by_role("heading")).to_have_text(citation)
    expect(panel.locator("blockquote")).to_contain_text("<img src=x onerror='window.hacked = 1'>")


@pytest.mark.parametrize("title", HOSTILE_HTML[:3])
def test_title_of_a_conversation_is_inert(quiet_page: Page, title: str) -> None:
    ask(quiet_page, title)
    expect(quiet_page.get_by_role("button", name="Copy", exact=True)).to_be_visible()
    open_list(quiet_page)

    expect(quiet_page.locator("#conversations li a").first).to_have_text(title)
