"""The report of an evaluation: nothing in it is active, and it can be read by everyone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from evals.questions import Question
from evals.report import write_report
from evals.runs import Run
from tests.support.browser.axe import problems
from tests.support.browser.hostile import HOSTILE_HTML, HOSTILE_MARKDOWN
from tests.support.eval_runs import answer, failure, judge, run

OPEN_ALL = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def make_run(name: str, score: float, *texts: str) -> Run:
    """A run with these texts in all places that others write to."""
    questions = [
        Question(
            question=f"{number} {text}?",
            history=(text,),
            citations=((text, "x.md"),),
            facts=((text,),),
            tags=(text,),
            reference=text,
        )
        for number, text in enumerate(texts)
    ]
    scores = {"facts_found": score, "refused": 0.0, "seconds": 1 + score}
    passages = {texts[0]: texts[-1], "x.md": "x" * 300}
    content = f"{name} [{texts[0]}] [lost.md] {' '.join(texts)}"
    verdicts = {text: "supported" for text in texts} | {content: "not_supported"}
    reasons = {"relevance": texts[0]}
    rows = [
        judge(answer(each, content, scores, passages), verdicts, reasons=reasons)
        for each in questions
    ]
    return run(*rows, failure(f"late {texts[0]}?", texts[0], 503), name=f"{name} {texts[0]}")


@pytest.fixture
def report(tmp_path: Path) -> str:
    """The URL of a report of two runs."""
    path = tmp_path / "report.html"
    write_report(path, make_run("now", 0.5, "plain", "words"), make_run("old", 1, "plain", "words"))
    return path.as_uri()


@pytest.fixture(params=["light", "dark"])
def themed(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(color_scheme=request.param)
    yield context.new_page()
    context.close()


def test_hostile_texts_stay_texts(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    hostile = make_run("now", 0.5, *HOSTILE_HTML, *HOSTILE_MARKDOWN)
    write_report(path, hostile, make_run("old", 1, *HOSTILE_HTML, *HOSTILE_MARKDOWN))
    requests: list[Any] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    page.evaluate(OPEN_ALL)

    expect(page.locator(".question")).to_have_count(len(HOSTILE_HTML) + len(HOSTILE_MARKDOWN))
    assert page.evaluate("window.hacked") is None
    assert page.locator("script, img, iframe, form, link, math, [onload]").count() == 0
    assert requests == [path.as_uri()]


def test_questions_and_passages_open_by_keyboard(page: Page, report: str) -> None:
    page.goto(report)
    page.get_by_text("0 plain?").locator("xpath=ancestor::summary").focus()
    page.keyboard.press("Enter")
    passage = page.locator(".question").first.locator(".passage").last
    expect(passage).to_be_visible()
    passage.locator("summary").focus()
    page.keyboard.press("Space")

    expect(passage.get_by_text("x" * 300)).to_be_visible()


def test_every_question_is_reached_by_keyboard(page: Page, report: str) -> None:
    page.goto(report)
    names = set[str]()
    for _ in range(40):
        page.keyboard.press("Tab")
        names.add(page.evaluate("document.activeElement.innerText.split('\\n')[0].trim()"))

    assert {"Differences", "Tags"} <= names
    assert {"plain → 0 plain?", "words → 1 words?"} <= {name.partition(" ▼")[0] for name in names}


def test_link_to_a_question_opens_it(page: Page, report: str) -> None:
    question = Question(question="1 words?", history=("words",))
    page.goto(f"{report}#question-{question.id}")

    expect(page.get_by_text("Question " + question.id)).to_be_in_viewport()


def test_report_of_two_runs_violates_no_rule_of_axe(themed: Page, report: str) -> None:
    themed.goto(report)
    assert problems(themed) == []
    themed.evaluate(OPEN_ALL)
    assert problems(themed) == []


def test_report_of_one_run_violates_no_rule_of_axe(themed: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, make_run("now", 0.5, "plain", "words"))
    themed.goto(path.as_uri())
    themed.evaluate(OPEN_ALL)

    assert problems(themed) == []


@pytest.mark.parametrize("width", [360, 640])  # 640: 1280 pixels at 200 %
def test_narrow_report_does_not_scroll_sideways(page: Page, report: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    page.goto(report)
    page.evaluate(OPEN_ALL)

    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0
