"""How the page shows what a model writes: Markdown, citations, code, formulas."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browser.axe import problems
from tests.support.browser.echo import run_echo
from tests.support.browser.page import MEMORY, ask
from tests.support.browser.states import Theme
from tests.support.servers import Server

DOCUMENTS = {name: f"# {name}\n\nzebra\n" for name in ("a.md", "b.md", "c, d.md")}
PYTHON = "```python\ndef total(prices):  # of all\n    return sum(prices) + 1\n```"


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app with a model that repeats the question."""
    with run_echo(tmp_path_factory.mktemp("echo"), DOCUMENTS) as server:
        yield server


@pytest.fixture
def echo_page(page: Page, echo: Server) -> Page:
    page.goto(echo.url)
    return page


def show(page: Page, text: str) -> Locator:
    """Return the answer with this text when it is complete."""
    ask(page, text)
    expect(page.get_by_role("button", name="Copy", exact=True).last).to_be_visible()
    return page.locator(".turn .text").nth(page.locator(".turn").count() - 1)


def style(element: Locator, name: str) -> str:
    return str(element.evaluate("(it, name) => getComputedStyle(it)[name]", name))


def test_numbered_list_begins_at_its_number(echo_page: Page) -> None:
    answer = show(echo_page, "3. three\n4. four")

    expect(answer.locator("ol")).to_have_attribute("start", "3")


def test_columns_of_a_table_are_aligned(echo_page: Page) -> None:
    answer = show(echo_page, "| a | b | c |\n|---|--:|:-:|\n| x | 1 | y |")

    assert [style(cell, "textAlign") for cell in answer.locator("td").all()] == [
        "start",
        "-webkit-right",
        "-webkit-center",
    ]
    assert style(answer.locator("th").first, "textAlign") == "start"


def test_words_and_numbers_in_a_table_stay_whole(echo_page: Page) -> None:
    echo_page.set_viewport_size({"width": 360, "height": 740})
    head = "|".join(["Deductible"] * 8)
    answer = show(echo_page, f"|{head}|\n|{'-|' * 8}\n|{'$2,000|' * 8}")

    heights = [
        cell.evaluate("it => it.getClientRects()[0].height") for cell in answer.locator("td").all()
    ]
    assert max(heights) < 50
    table = answer.locator("table")
    assert table.evaluate("it => it.scrollWidth > it.clientWidth")
    table.focus()
    echo_page.keyboard.press("ArrowRight")
    wait = "async it => { while (!it.scrollLeft) await new Promise(requestAnimationFrame); }"
    table.evaluate(wait)


def test_tasks_have_boxes(echo_page: Page) -> None:
    answer = show(echo_page, "- [x] done\n- [ ] open")

    expect(answer.locator("li")).to_have_text(["☑ done", "☐ open"])
    assert style(answer.locator("li").first, "listStyleType") == "none"


def test_line_breaks_and_scripts_are_the_only_html(echo_page: Page) -> None:
    answer = show(echo_page, "H<sub>2</sub>O m<sup>**2**</sup><br>new\n<br>\n<b>b</b> <sub x>")

    expect(answer.locator("sub")).to_have_text("2")
    expect(answer.locator("sup strong")).to_have_text("2")
    expect(answer.locator("br")).to_have_count(2)
    expect(answer).to_contain_text("<b>b</b> <sub x>")


def test_a_script_without_an_end_is_text(echo_page: Page) -> None:
    answer = show(echo_page, "<sup>\na\n\n<sub>b\n\nc</sup>")

    expect(answer.locator("sub, sup")).to_have_count(0)
    expect(answer.locator("p")).to_have_text(["<sup> a", "<sub>b", "c</sup>"])


def test_bullets_quotes_and_inline_code_look_so(echo_page: Page) -> None:
    answer = show(echo_page, "- one\n  - two\n\n> quoted\n\nuse `code`")

    lists = [style(each, "listStyleType") for each in answer.locator("ul").all()]
    assert lists == ["disc", "circle"]
    assert style(answer.locator("blockquote"), "borderInlineStartWidth") == "3px"
    plain = style(answer.locator("p").last, "backgroundColor")
    assert style(answer.locator("code"), "backgroundColor") != plain


def test_citations_leave_lines_even_and_stay_at_their_word(echo_page: Page) -> None:
    text = "zebra " * 40
    cited = "zebra [a.md] " * 40
    show(echo_page, f"{text}\n\n{cited}")
    for width in range(360, 480, 8):
        echo_page.set_viewport_size({"width": width, "height": 740})
        alone = echo_page.evaluate("""() => [...document.querySelectorAll(".citation")].filter(
          (link) => {
            const word = document.createRange();
            const text = link.parentElement.previousSibling;
            word.setStart(text, text.data.lastIndexOf("zebra"));
            word.setEnd(text, text.data.lastIndexOf("zebra") + 5);
            return word.getBoundingClientRect().bottom < link.getBoundingClientRect().top;
          }).length""")
        assert alone == 0
    lines = (
        """it => it.getBoundingClientRect().height / parseFloat(getComputedStyle(it).lineHeight)"""
    )
    count = echo_page.locator(".text p").last.evaluate(lines)
    assert abs(count - round(count)) < 0.01


@pytest.mark.parametrize("link", ["[2](#source-1)", "[click here](#source-1)", "[x](#top)"])
def test_link_of_the_model_is_no_citation(echo_page: Page, link: str) -> None:
    answer = show(echo_page, f"zebra [a.md] {link}")

    expect(answer.locator("a")).to_have_count(1)
    expect(answer.locator("a")).to_have_accessible_name("Source 1: a.md")
    expect(answer).to_contain_text(link[1 : link.index("]")])


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("zebra [a.md, b.md]", ["a.md", "b.md"]),
        ("zebra [a.md; b.md]", ["a.md", "b.md"]),
        ("zebra [ a.md ]", ["a.md"]),
        ("zebra 【a.md】", ["a.md"]),
        ("zebra [c, d.md]", ["c, d.md"]),
        ("zebra [b.md, c, d.md; a.md]", ["b.md", "c, d.md", "a.md"]),
        ("zebra [a.md, other.md]", []),
        ("zebra [a.md,]", []),
    ],
)
def test_names_of_sources_in_brackets_are_citations(
    echo_page: Page, text: str, cited: list[str]
) -> None:
    answer = show(echo_page, text)

    expect(answer.locator(".citation")).to_have_count(len(cited))
    expect(echo_page.locator(".turn .citations button")).to_have_text(cited)
    if not cited:
        expect(answer).to_have_text(text)


def open_stored(page: Page, server: Server, answers: list[str]) -> None:
    """Store a conversation with these answers, and open it."""
    with server.client() as client:
        conversation = client.post(MEMORY, json={"name": "stored"}).json()["memory_id"]
        for answer in answers:
            turn = {"input": "?", "response": answer}
            client.post(f"{MEMORY}/{conversation}/messages", json=turn).raise_for_status()
    page.goto(f"{server.url}/#c={conversation}")


DEEP = (
    "> " * 2000,
    "- " * 2000 + "a",
    "1. " * 2000 + "a",
    "* * " * 4000 + "a",
    "*" * 20_000 + "a" + "*" * 20_000,
    "[" * 20_000 + "]" * 20_000,
    "*_" * 2000 + "a" + "_*" * 2000,
    "<sub>" * 2000 + "a" + "</sub>" * 2000,
    "\\(" * 20_000,
    "$$" * 20_000,
    "\\[\n" * 10_000,
)


@pytest.mark.parametrize("text", DEEP)
def test_page_goes_on_behind_deeply_nested_marks(page: Page, echo: Server, text: str) -> None:
    open_stored(page, echo, [text, "**last**"])

    expect(page.locator(".turn .text").last.locator("strong")).to_have_text("last")
    expect(show(page, "**next**").locator("strong")).to_have_text("next")


def test_marks_too_deep_for_the_parser_are_plain_text(echo_page: Page) -> None:
    answer = show(echo_page, f"**before**\n\nhere\n\n{'> ' * 2000}\n")

    expect(answer.locator("strong")).to_have_text("before")
    expect(answer.locator(".plain")).to_contain_text("> > >")


SLOW = ("**a *b " * 4000 + "c* d** " * 4000, "*a**a " * 9000)


@pytest.mark.parametrize("text", SLOW)
def test_emphasis_without_an_end_is_read_in_linear_time(
    page: Page, echo: Server, text: str
) -> None:
    open_stored(page, echo, [text, "**last**"])

    last = page.locator(".turn .text").last.locator("strong")
    expect(last).to_have_text("last", timeout=3000)


def test_code_in_an_arabic_answer_runs_left_to_right(echo_page: Page) -> None:
    answer = show(echo_page, f"مثال `a = b` هنا\n\n{PYTHON}")

    assert style(answer.locator("p").first, "direction") == "rtl"
    for code in answer.locator("code, pre").all():
        assert style(code, "direction") == "ltr"
    assert style(answer.locator("pre"), "textAlign") == "left"


def test_block_of_code_names_its_language_and_is_copied_by_keyboard(echo_page: Page) -> None:
    answer = show(echo_page, f"{PYTHON}\n\n```\nplain\n```")
    expect(answer.locator(".code-header span")).to_have_text(["Python", ""])
    button = answer.get_by_role("button", name="Copy code").first
    button.focus()
    echo_page.keyboard.press("Enter")
    expect(answer.get_by_role("button", name="Copied")).to_be_focused()

    copied = echo_page.evaluate("navigator.clipboard.readText()")
    assert copied == "def total(prices):  # of all\n    return sum(prices) + 1"


def test_code_keeps_its_text_when_it_gets_colours(echo_page: Page) -> None:
    lines = "    if a < b && c: <b>x</b>\n\treturn '&amp;'\n\n  # end"
    answer = show(echo_page, f"```py\n{lines}\n```")
    expect(answer.locator("pre .hljs-keyword").first).to_be_visible()

    assert answer.locator("pre").text_content() == lines


def test_language_without_colours_stays_plain(echo_page: Page) -> None:
    answer = show(echo_page, "```klingon\nqapla' 1\n```\n\n```constructor\nx\n```")

    expect(answer.locator(".code-header span")).to_have_text(["klingon", "constructor"])
    expect(answer.locator("pre span")).to_have_count(0)


def stream(page: Page, text: str) -> Locator:
    """Return an answer that has begun with this text, and that has not ended."""
    expect(page.get_by_label("Ask a question")).to_be_enabled()
    begin = """async (text) => {
      const { AnswerView } = await import("/page/answer.js");
      const element = document.createElement("div");
      element.className = "text";
      document.querySelector("main").prepend(element);
      new AnswerView(element, () => "", (grow) => grow()).append(text);
    }"""
    page.evaluate(begin, text)
    return page.locator("main > .text")


def test_code_gets_colours_when_it_is_complete(echo_page: Page) -> None:
    answer = stream(echo_page, "```py\nreturn 1\n```\n\n- a\n\n```py\nreturn 2")

    expect(answer.locator("pre")).to_have_text(["return 1", "return 2"])
    expect(answer.locator(".hljs-keyword")).to_have_count(1)
    expect(answer.locator(".code-header span")).to_have_text(["Python", "Python"])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_answer_violates_no_rule_of_axe(browser: Browser, echo: Server, theme: Theme) -> None:
    context = browser.new_context(color_scheme=theme, reduced_motion="reduce", locale="en")
    page = context.new_page()
    page.goto(echo.url)
    samples = {
        "python": "@cached\nclass A(B):\n    '''Doc'''\n    x: int = len('a') + 1  # note",
        "html": "<!-- note --><a href='x'>y</a>",
        "css": "#a .b:hover > p { color: #fff; width: calc(1px + 2em) } /* c */",
        "sql": "SELECT COUNT(*) FROM t WHERE a = 'b' -- c",
        "bash": 'for f in $A; do echo "${f}" | grep -v 1; done',
        "yaml": "a: &b true # c",
        "json": '{"a": [1, null, "b"]}',
        "ts": "const a: Map<string, number> = new Map(); // `${a}`\nfunction f(x) { /re/.test(x) }",
        "powershell": "Get-Item $env:A | Where-Object { $_.Name -eq 'b' }",
    }
    code = "\n\n".join(f"```{name}\n{text}\n```" for name, text in samples.items())
    formulas = "\\(x^2\\)\n\n$$\n\\sum_{i=1}^n i\n$$"
    answer = show(page, f"> quote `code`\n\n- [x] a\n\n{formulas}\n\n{code}\n\nzebra [a.md]")
    expect(answer.locator("pre:not(:has(span))")).to_have_count(0)
    expect(answer.locator("math")).to_have_count(2)

    assert problems(page) == []
    context.close()


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        (r"so \(x_1 * y_1\) holds", [False]),
        ("\\[\nx = 1\n\\]", [True]),
        ("before\n\\[\n\\begin{aligned}\na &= b \\\\\n- c\n\\end{aligned}\n\\]\nafter", [True]),
        ("$$x^2$$", [True]),
        ("so $$ x = 1 $$ holds", [True]),
        ("1. one\n   $$\n   a + b\n   $$\n2. two", [True]),
        (r"| a |\n|---|\n| \(x\) |".replace("\\n", "\n"), [False]),
        (r"**Area: \(a^2\)** and \(b\)", [False, False]),
    ],
)
def test_formula_is_mathml(echo_page: Page, text: str, blocks: list[bool]) -> None:
    answer = show(echo_page, text)

    expect(answer.locator("math")).to_have_count(len(blocks))
    shown = [each.get_attribute("display") == "block" for each in answer.locator("math").all()]
    assert shown == blocks
    assert "\\" not in answer.inner_text()


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and not $10.",
        "It costs $$100 or $$200, $$ or $$$, a$$b.",
        r"`\(x\)` and `$$x$$`",
        "```\n\\[\nx\n\\]\n$$y^2$$\n```",
        r"unfinished \\(x\\) and \(y",
        "\\[ `code` \\]",
        "$$\nx\n\ny\n$$",
    ],
)
def test_everything_else_is_no_formula(echo_page: Page, text: str) -> None:
    answer = show(echo_page, text)
    show(echo_page, r"\(x\)")

    expect(echo_page.locator("math")).to_have_count(1)
    expect(answer.locator(".formula")).to_have_count(0)


def test_formula_is_shown_when_it_is_complete(echo_page: Page) -> None:
    answer = stream(echo_page, r"first \(a\) then \(b + c")

    expect(answer.locator("math")).to_have_text("a")
    expect(answer).to_contain_text("then (b + c")


@pytest.mark.parametrize("formula", [r"\frac{1", r"\unknown{x}", r"\begin{x}y\end{x}", "x" * 2001])
def test_formula_with_an_error_shows_its_source(echo_page: Page, formula: str) -> None:
    answer = show(echo_page, f"so \\({formula}\\) and \\(y\\)")
    expect(answer.locator("math")).to_have_count(1)

    expect(answer).to_contain_text(formula)


def test_libraries_are_loaded_only_when_an_answer_needs_them(echo_page: Page) -> None:
    requests = list[str]()
    echo_page.on("request", lambda request: requests.append(request.url))
    show(echo_page, "plain **text** with `code`, $5 and\n\n```\na block\n```")
    assert [url for url in requests if "/vendor/" in url] == []
    show(echo_page, f"{PYTHON}\n\n\\(x\\)")
    expect(echo_page.locator("math")).to_have_count(1)
    expect(echo_page.locator(".hljs-keyword").first).to_be_visible()

    names = [url.rpartition("/vendor/")[2] for url in requests if "/vendor/" in url]
    assert sorted(names) == ["highlight/core.js", "highlight/python.js", "temml.js"]


@pytest.mark.parametrize("width", [360, 1280])
def test_long_formula_and_code_scroll_within_the_answer(echo_page: Page, width: int) -> None:
    echo_page.set_viewport_size({"width": width, "height": 740})
    terms = " + ".join(f"x_{{{number}}}" for number in range(60))
    answer = show(echo_page, f"$$\n{terms}\n$$\n\nso \\({terms}\\)\n\n```\n{'word ' * 99}\n```")
    expect(answer.locator("math")).to_have_count(2)

    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert echo_page.evaluate(overflow) <= 0
    for wide in answer.locator(".formula, pre").all():
        assert wide.evaluate("it => it.scrollWidth > it.clientWidth && it.tabIndex === 0")


def test_headings_begin_below_those_of_the_page(echo_page: Page) -> None:
    answer = show(echo_page, "## First\n\n### Below\n\n# Above\n\n###### Deep\n")

    levels = answer.evaluate(
        "it => [...it.querySelectorAll('h1,h2,h3,h4,h5,h6')].map((e) => e.tagName)"
    )
    assert levels == ["H3", "H4", "H3", "H6"]
