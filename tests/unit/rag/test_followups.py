"""Questions in an answer's text, cut by tokens at every place, and text that is no question."""

from __future__ import annotations

import asyncio
from itertools import combinations
from time import process_time

import pytest

from shared.domain.events import Answer, Delta, Done, collect
from shared.rag.followups import (
    MAX_BLANK_LENGTH,
    MAX_QUESTION_LENGTH,
    FollowupParser,
    extract_followups,
)
from tests.support.fakes import ScriptStep, play


def answered(*pieces: str, reason: str = "stop") -> Answer:
    script: list[ScriptStep] = [*(Delta(piece) for piece in pieces), Done(reason)]
    return asyncio.run(collect(extract_followups(play(script))))


ANSWERS: list[tuple[str, str, tuple[str, ...]]] = [
    ("Yes [a.md].\n\n<<How much?>>\n<<Since when?>>", "Yes [a.md].", ("How much?", "Since when?")),
    ("<<How?>>", "", ("How?",)),
    ("Yes. <<How?>> That is all.", "Yes. That is all.", ("How?",)),
    (
        "Zażółć 漢字 😀 <<¿Cuánto?>><<いくらですか？>>",
        "Zażółć 漢字 😀",
        ("¿Cuánto?", "いくらですか？"),
    ),
    ("Yes.\n<<Tell me about dental>>", "Yes.", ("Tell me about dental",)),
    ("1 << 2 and cout << x << endl;", "1 << 2 and cout << x << endl;", ()),
    ("cin >> x; cout <<x; y>>", "cin >> x; cout <<x; y>>", ()),
    ("cat <<EOF\nhello\nEOF", "cat <<EOF\nhello\nEOF", ()),
    ("1<<2 then 8>>1", "1<<2 then 8>>1", ()),
    ("map<vector<vector<int>>> <<<x?>>", "map<vector<vector<int>>> <<<x?>>", ()),
    ("a < b", "a < b", ()),
    ("ends with <", "ends with <", ()),
    ("ends with <<", "ends with <<", ()),
    ("ends with <<half a", "ends with <<half a", ()),
    ("<<two\nlines?>>", "<<two\nlines?>>", ()),
    ("<< spaced? >>", "", ("spaced?",)),
    (
        "Yes.\n<<Is the copay > $20?>>\n<<Is it < 5?>>\n<<What else?>>",
        "Yes.",
        ("Is the copay > $20?", "Is it < 5?", "What else?"),
    ),
    ("Yes.\n- <<What?>>\n- <<How?>>", "Yes.", ("What?", "How?")),
    ("1. <<What?>>\n2. <<How?>>", "", ("What?", "How?")),
    ("- one\n- two\n1) three", "- one\n- two\n1) three", ()),
    ("Dear <<first name>>, your <<plan name>>", "Dear <<first name>>, your <<plan name>>", ()),
    ("`1 <<n and m>> 2`", "`1 <<n and m>> 2`", ()),
    ("<<Tell me more>>\nAnd so on.", "\nAnd so on.", ("Tell me more",)),
    ("\n\n lines first", "\n\n lines first", ()),
    ("x <<How?>> <<b>> y", "x <<b>> y", ("How?",)),
    (f"<<{'x' * 400}?>>", f"<<{'x' * 400}?>>", ()),
    (f"<<{'x' * 299}?>>", "", ("x" * 299 + "?",)),
    ("Yes.\n<<Tell me about dental>><<How?>>", "Yes.", ("Tell me about dental", "How?")),
    ("Yes.\n<< >>", "Yes.\n<< >>", ()),
    ("no questions, a space \n", "no questions, a space \n", ()),
    ("", "", ()),
]


@pytest.mark.parametrize(("text", "content", "questions"), ANSWERS)
def test_a_text_gives_the_same_wherever_it_is_cut_in_two_or_three(
    text: str, content: str, questions: tuple[str, ...]
) -> None:
    places = range(len(text) + 1)
    pairs = list(combinations(places, 2)) if len(text) < 60 else [(at, at) for at in places]
    for first, second in [*pairs, (0, 0)]:
        answer = answered(text[:first], text[first:second], text[second:])

        assert (answer.content, answer.done.followups) == (content, questions), (first, second)


@pytest.mark.parametrize(("text", "content", "questions"), ANSWERS)
def test_a_text_gives_the_same_character_by_character(
    text: str, content: str, questions: tuple[str, ...]
) -> None:
    answer = answered(*text)

    assert (answer.content, answer.done.followups) == (content, questions)


def test_a_marker_that_the_length_limit_cut_is_not_shown() -> None:
    answer = answered("Yes.\n<<How?>>\n<<What abo", reason="length")

    assert (answer.content, answer.done.followups) == ("Yes.", ("How?",))


def test_a_bracket_that_the_length_limit_cut_is_shown() -> None:
    assert answered("The limit is x <", reason="length").content == "The limit is x <"


def test_text_is_not_held_back_longer_than_it_must_be() -> None:
    async def first() -> str:
        events = extract_followups(play([Delta("Dental "), Delta("care is "), asyncio.Event()]))
        deltas = [await anext(events), await anext(events)]
        await events.aclose()
        return "".join(event.content for event in deltas if isinstance(event, Delta))

    assert asyncio.run(first()) == "Dental care is"


LONG = ["\n" * 100_000, f"<<a{' ' * 100_000}x>>", "<<a" * 30_000, "\n- " * 30_000, "<" * 100_000]


@pytest.mark.parametrize("text", LONG, ids=["lines", "blanks", "marks", "items", "brackets"])
def test_a_long_answer_takes_no_seconds(text: str) -> None:
    for pieces in ([text], list(text)):
        splitter, before = FollowupParser(), process_time()
        output = [splitter.feed(piece) for piece in pieces]

        assert "".join(output) + splitter.end(cut=False) == text
        assert process_time() - before < 5  # the lines alone took minutes


@pytest.mark.parametrize("begin", ["", "\n- ", "<<", "<<a", "\n<<a>>"])
@pytest.mark.parametrize("more", ["\n", " ", "a", "a "])
def test_what_is_held_back_is_short(begin: str, more: str) -> None:
    splitter, text = FollowupParser(), begin + more * 1000
    output = "".join(map(splitter.feed, text))

    assert len(text) - len(output) <= MAX_QUESTION_LENGTH + MAX_BLANK_LENGTH
