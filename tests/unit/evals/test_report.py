"""Tests of the report of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag

from evals.questions import Question
from evals.report import render, write_report
from evals.runs import Row, Run
from tests.support.eval_runs import answer, failure, judge, run

HOSTILE = (
    "</style></title>\"'><script>alert(1)</script><img src=x onerror=alert(1)> & \u202egnp.exe"
)
REVEALED = HOSTILE.replace("\u202e", "⟨U+202E⟩")


def parse(run: Run, before: Run | None = None) -> BeautifulSoup:
    return BeautifulSoup(render(run, before), "html.parser")


def text(tag: Tag | None) -> str:
    assert tag is not None
    return " ".join(tag.get_text(" ").replace("\N{MINUS SIGN}", "-").split())


def line(page: BeautifulSoup, caption: str, header: str) -> list[str]:
    """Return the cells of a row, with its header."""
    for table in page.find_all("table"):
        if text(table.caption) == caption:
            rows = [row for row in table.find_all("tr") if text(row).startswith(header)]
            return [text(cell) for cell in rows[0].find_all(["th", "td"])]
    raise AssertionError(f"no table {caption}")


def questions(page: BeautifulSoup, heading: str) -> list[str]:
    """Return the questions under a heading, in their order."""
    start = next(tag for tag in page.find_all("h2") if text(tag).startswith(heading))
    answers = []
    for tag in start.find_next_siblings():
        if tag.name == "h2":
            break
        if tag.name == "details":
            answers.append(text(tag.summary))
    return answers


RATES = "Mean of each rate over the answers that it applies to"
CHANGES = "Means before and now: what is worse, then what is better, then the rest"
AMOUNTS = "Means, and how the answers are distributed"
TAGS = "Mean of each rate by tag, and its 95 % interval"


def with_scores(**scores: float) -> Row:
    return answer("a?", "b", scores)


def rates(metric: str, *values: float) -> list[Row]:
    return [answer(f"{number}?", "b", {metric: value}) for number, value in enumerate(values)]


def test_rate_has_its_mean_its_interval_and_its_number_of_answers() -> None:
    page = parse(run(*rates("facts_found", *[1] * 15, *[0] * 5)))

    header, *cells = line(page, RATES, "Facts found")
    assert header == "Facts found share of the facts in the answer"
    assert cells == ["75.0 %", "", "55.0 to 90.0 %", "20"]


def test_amount_has_its_median_and_its_largest() -> None:
    page = parse(run(*rates("seconds", 0.1, 0.2, 3)))

    _, mean, _, median, _, largest, _ = line(page, AMOUNTS, "Time")
    assert (mean, median, largest) == ("1.10 s", "0.200 s", "3 s")


def test_failures_stand_apart_and_in_no_mean() -> None:
    page = parse(run(*rates("facts_found", 1, 1), failure("late?", "The app is busy.", 503)))

    assert line(page, "Questions without an answer", "late?") == [
        "late?",
        "503",
        "The app is busy.",
    ]
    assert line(page, RATES, "Facts found")[-1] == "2"
    assert text(page.find("dl")) == (
        "questions 3 without an answer 1 answers without a shortfall 2"
    )


def test_run_without_any_answer_says_so() -> None:
    assert "No question has an answer." in text(parse(run(failure("a?", "refused"))))


@pytest.mark.parametrize("before", [None, run(failure("a?", "refused"), name="old")])
def test_every_text_of_others_is_shown_as_it_is(before: Run | None) -> None:
    question = Question(
        question=f"1 {HOSTILE}",
        history=(f"2 {HOSTILE}",),
        citations=((f"3 {HOSTILE}",),),
        facts=((f"4 {HOSTILE}",),),
        reference=f"5 {HOSTILE}",
        tags=(f"6 {HOSTILE}",),
    )
    row = answer(
        question,
        f"7 {HOSTILE} [{HOSTILE}]",
        {"facts_found": 0},
        {HOSTILE: f"8 {HOSTILE}"},
        finish_reason=f"9 {HOSTILE}",
    )
    row = judge(
        row,
        {f"15 {HOSTILE}": "supported"},
        reasons={"relevance": f"13 {HOSTILE}"},
        failures={"completeness": f"14 {HOSTILE}"},
    )
    page = parse(run(row, failure(f"10 {HOSTILE}", f"11 {HOSTILE}"), name=f"12 {HOSTILE}"), before)

    shown = page.get_text()
    assert [number for number in range(1, 16) if f"{number} {REVEALED}" not in shown] == []
    assert f"[{REVEALED}]" in shown
    assert page.find_all(["script", "img", "iframe", "link", "object", "form"]) == []
    assert len(page.find_all("style")) == 1


def test_page_loads_nothing_and_allows_no_script() -> None:
    page = parse(run(answer("a?", "see https://example.com/x.png")))
    policy = page.find("meta", {"http-equiv": "Content-Security-Policy"})

    assert isinstance(policy, Tag)
    assert str(policy["content"]).startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert page.find_all(src=True) == []
    assert all(str(link["href"]).startswith("#") for link in page.find_all(href=True))
    assert "url(" not in text(page.find("style"))


def test_worst_answer_comes_first() -> None:
    page = parse(
        run(
            answer("fine?", "b", {"facts_found": 1, "refused": 0}),
            answer("half?", "b", {"facts_found": 0.5, "refused": 0}),
            answer("bad?", "b", {"facts_found": 0, "refused": 1}),
        )
    )

    assert questions(page, "Answers that fall short") == [
        "bad? ✗ Refused 100 % ✗ Facts found 0 %",
        "half? ✗ Facts found 50 %",
    ]
    assert questions(page, "Answers without a shortfall") == ["fine?"]


def test_expected_page_and_fact_have_a_mark_each() -> None:
    question = Question(
        question="a?",
        citations=(("x.md", "y.md"), ("z.md",), ("w.md",)),
        facts=(("Red",), ("blue",), ("green",)),
    )
    page = parse(
        run(
            answer(question, "It is red [x.md#page=2].", {}, {"x.md#page=2": "red", "z.md": "blue"})
        )
    )

    assert line(page, "Expected", "page: x.md")[1:] == ["✓ cited"]
    assert line(page, "Expected", "page: z.md")[1:] == ["✗ retrieved only"]
    assert line(page, "Expected", "page: w.md")[1:] == ["✗ missing"]
    assert line(page, "Expected", "fact: Red")[1:] == ["✓ in the answer"]
    assert line(page, "Expected", "fact: blue")[1:] == ["✗ in a passage only"]
    assert line(page, "Expected", "fact: green")[1:] == ["✗ missing"]


def test_citation_says_what_is_wrong_with_it() -> None:
    question = Question(question="a?", citations=(("x.md",),))
    content = "b [x.md] [y.md] [z.md] [w.md] [1]"
    passages = {"x.md": "b", "y.md": "c"}
    page = parse(run(answer(question, content, {}, passages, missing_files=("z.md",))))

    assert [text(cite) for cite in page.find_all("cite")] == [
        "[x.md] ✓ expected",
        "[y.md] not expected",
        "[z.md] ✗ no such file",
        "[w.md] ✗ not retrieved",
    ]


def test_judgement_is_shown_sentence_by_sentence() -> None:
    verdicts = {"It is red.": "supported", "It is old.": "not_supported", "Hello.": "no_claim"}
    row = answer("a?", "It is red. It is old. Hello.", {"relevance": 0.75})
    page = parse(run(judge(row, verdicts, reasons={"relevance": "too long"})))

    assert line(page, "Groundedness", "It is red.")[1:] == ["✓ supported by x.md"]
    assert line(page, "Groundedness", "It is old.")[1:] == ["✗ not supported"]
    assert line(page, "Groundedness", "Hello.")[1:] == ["no claim"]
    assert "Relevance 75 %: too long" in text(page)


def test_metric_that_the_judge_could_not_score_says_why() -> None:
    row = judge(answer("a?", "b"), {}, failures={"completeness": "The response is cut off."})

    assert "Completeness has no score: The response is cut off." in text(parse(run(row)))


def test_passages_are_in_the_order_of_the_prompt_and_say_what_they_are_for() -> None:
    question = Question(question="a?", citations=(("y.md",),), facts=(("first",),))
    page = parse(run(answer(question, "b [x.md]", {}, {"x.md": "first", "y.md": "second"})))

    passages = page.select("details details")
    assert [text(each) for each in passages] == [
        "1 x.md ✓ has a fact ✓ cited first",
        "2 y.md ✓ expected second",
    ]


def test_tags_have_a_line_each() -> None:
    tagged = Question(question="a?", tags=("follow-up",))
    page = parse(
        run(answer(tagged, "b", {"facts_found": 0}), answer("c?", "d", {"facts_found": 1}))
    )

    assert line(page, TAGS, "all questions")[1:] == ["2", "50.0 % 0.0 to 100.0 %"]
    assert line(page, TAGS, "follow-up")[1:] == ["1", "0.0 % 0.0 to 0.0 %"]
    assert line(page, TAGS, "without a tag")[1:] == ["1", "100.0 % 100.0 to 100.0 %"]


def test_change_is_told_from_noise() -> None:
    before = run(*rates("facts_found", *[1] * 20), name="old")

    worse = line(parse(run(*rates("facts_found", *[0] * 10, *[1] * 10)), before), CHANGES, "Facts")
    noise = line(parse(run(*rates("facts_found", 0, *[1] * 19)), before), CHANGES, "Facts")
    same = line(parse(before, before), CHANGES, "Facts")
    assert worse[1:] == [
        "100.0 %",
        "50.0 %",
        "-50.0 points",
        "",
        "-70.0 to -30.0 points",
        "▼ worse",
        "20",
    ]
    assert noise[-2] == "noise"
    assert same[-2] == "same"


def test_less_is_better_where_a_metric_says_so() -> None:
    before, now = run(*rates("seconds", *[2] * 9)), run(*rates("seconds", *[1] * 9))

    assert line(parse(now, before), CHANGES, "Time")[-2] == "▲ better"
    assert text(parse(now, before).find("dl")).startswith(
        "▼ Worse in 0 of 1 metrics ▲ Better in 1 of 1 metrics Time 2 s → 1 s"
    )


def test_greatest_change_comes_first_with_both_answers() -> None:
    before = run(
        answer("same?", "b", {"facts_found": 0}),
        answer("better?", "b", {"facts_found": 0.5}),
        answer("worse?", "old words", {"facts_found": 1}),
    )
    page = parse(
        run(
            answer("same?", "c", {"facts_found": 0}),
            answer("better?", "b", {"facts_found": 0.75}),
            answer("worse?", "new words", {"facts_found": 0}),
        ),
        before,
    )

    assert questions(page, "Questions whose rates changed") == [
        "worse? ▼ Facts found 100 % → 0 %",
        "better? ▲ Facts found 50 % → 75 %",
    ]
    assert questions(page, "Questions whose rates are the same") == [
        "same? ✗ Facts found 0 % the text differs"
    ]
    worse, better = page.select("details.question")[:2]
    assert [text(each) for each in worse.select("section:has(.text)")] == [
        "Answer, before old words",
        "Answer, this run new words",
    ]
    assert [text(each) for each in better.select("section:has(.text)")] == ["Answer of both runs b"]


def test_passage_of_both_runs_comes_once_with_its_ranks() -> None:
    before = run(answer("a?", "b", {}, {"x.md": "first", "y.md": "second"}))
    page = parse(run(answer("a?", "b", {}, {"y.md": "second", "z.md": "third"})), before)

    assert [text(each.summary) for each in page.select("details details")] == [
        "before 2, this run 1 y.md",
        "before absent, this run 2 z.md",
        "before 1, this run absent x.md",
    ]


def test_only_questions_that_both_runs_have_answered_are_compared() -> None:
    before = run(
        answer("a?", "b", {"facts_found": 1}),
        answer("lost?", "b", {"facts_found": 1}),
        failure("first?", "busy"),
        failure("never?", "busy"),
        answer("removed?", "b", {"facts_found": 1}),
    )
    page = parse(
        run(
            failure("never?", "busy"),
            failure("lost?", "busy"),
            answer("a?", "b", {"facts_found": 0}),
            answer("first?", "b", {"facts_found": 0}),
        ),
        before,
    )

    assert line(page, CHANGES, "Facts")[-1] == "1"
    assert "over the 1 questions that both" in text(page)
    assert "1 others have an answer in this run only, 2 before only" in text(page)
    assert questions(page, "Questions answered in this run only") == ["first? ✗ Facts found 0 %"]
    failures = [text(row) for row in page.select("#failures ~ .scroll")[0].find_all("tr")][1:]
    assert failures == ["lost? none busy answered", "never? none busy failed, too"]


def test_rate_of_this_run_only_is_not_lost() -> None:
    page = parse(run(with_scores(facts_found=1, groundedness=0.5)), run(with_scores(facts_found=1)))

    assert line(page, RATES, "Groundedness")[1] == "50.0 %"
    assert line(page, CHANGES, "Facts found")[-2] == "same"


@pytest.mark.parametrize("before", [None, run(with_scores(facts_found=0, seconds=2))])
def test_tables_have_captions_and_headers_with_a_scope(before: Run | None) -> None:
    question = Question(question="a?", facts=(("b",),), tags=("t",))
    scores = {"facts_found": 1.0, "seconds": 1.0}
    page = parse(run(answer(question, "b", scores), failure("c?", "busy")), before)

    for table in page.find_all("table"):
        assert text(table.caption)
        assert all(header.get("scope") for header in table.find_all("th"))
        columns = len(table.thead.find_all("th")) if table.thead else 0
        first = table.tbody.find("tr") if table.tbody else None
        assert first and len(first.find_all(["th", "td"])) == columns


def test_file_holds_what_no_encoding_has(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", run(answer("a?", "half \ud800 a pair, é")))

    assert "half ⟨U+D800⟩ a pair, é" in (tmp_path / "report.html").read_text("utf-8")
