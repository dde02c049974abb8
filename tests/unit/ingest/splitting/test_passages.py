"""Splits unusual texts into passages without losing or splitting words."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.document import Page, UnreadableDocument
from ingest.splitting.packing import OVERLAP_RATIO
from ingest.splitting.passages import (
    MAX_TOKENS,
    PassageSpan,
    page_spans,
    split_document,
    with_description,
)
from shared.text import count_tokens
from tests.support.fuzz import EXAMPLES
from tests.support.growth import check_growth
from tests.support.page_texts import page_texts

LANGUAGES = {
    "English": "The plan covers emergency room visits at any hospital. Each one costs $150. ",
    "German": "Die Krankenversicherung übernimmt Zahnreinigungen. Brillengläser kosten 40 €. ",
    "Arabic": "تغطي الخطة زيارات غرفة الطوارئ في أي مستشفى. هل تغطي النظارات؟ نعم. ",
    "Chinese": "该计划涵盖网络内外任何医院的急诊室就诊。自付费用为一百五十美元。",
    "Hindi": "यह योजना किसी भी अस्पताल की यात्राओं को कवर करती है। चश्मा भी शामिल है। ",
    "Japanese": "このプランは救急外来を対象としています。自己負担額は百五十ドルです。",
}
WORDS = st.sampled_from(
    "copay deductible $1,500 3.5 Straße naïve مستشفى अस्पताल 急诊室 don't Dr. 👩🏽‍💻 a_b".split()
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=30).map(lambda words: " ".join(words) + ". ")
ROWS = st.lists(WORDS, min_size=3, max_size=3).map(lambda cells: f"| {' | '.join(cells)} |\n")
TABLES = st.lists(ROWS, min_size=1, max_size=60).map(
    lambda rows: "\n\n| A | B | C |\n|---|---|---|\n" + "".join(rows) + "\n"
)
HEADINGS = st.tuples(st.integers(1, 4), WORDS).map(
    lambda parts: f"\n\n{'#' * parts[0]} {parts[1]}\n\n"
)
LISTS = st.lists(SENTENCES, min_size=1, max_size=8).map(
    lambda items: "\n" + "".join(f"- {item}\n" for item in items)
)
BREAKS = st.sampled_from(["\n", "\n\n", "\r\n\r\n", "   ", "\n```\n", "\n---\n", "|"])
BLOCKS = st.one_of(SENTENCES, SENTENCES, TABLES, HEADINGS, LISTS, BREAKS, st.text(max_size=60))
TEXTS = st.lists(BLOCKS, max_size=25).map("".join)
TITLES = st.sampled_from(("", "Northwind Standard", "Leave " * 33))
PAGES = st.builds(Page, TEXTS, markdown=st.booleans(), title=TITLES)


def uncovered(page: Page, spans: list[PassageSpan]) -> str:
    """What of a page's text lies in no cut."""
    rest, place = "", 0
    for cut in spans:
        rest += page.text[place : cut.start]
        place = max(place, cut.end)
    return (rest + page.text[place:]).strip()


def is_within_word(text: str, place: int) -> bool:
    """Whether a place lies between two letters of a script that parts words by blanks."""
    around = text[max(0, place - 1) : place + 1]
    return bool(re.fullmatch(r"[A-Za-zÀ-ɏ0-9\u0620-\u064a\u0904-\u0939]{2}", around))


@settings(max_examples=EXAMPLES, deadline=None)
@given(PAGES)
def test_spans_cover_all_text_but_white_space(page: Page) -> None:
    spans = list(page_spans(page))

    assert uncovered(page, spans) == ""
    assert all(0 <= cut.start < cut.end <= len(page.text) for cut in spans)


@settings(max_examples=EXAMPLES, deadline=None)
@given(PAGES)
def test_passage_has_the_words_of_its_span(page: Page) -> None:
    for cut in page_spans(page):
        rest = iter(re.findall(r"\w", cut.content))
        place = page.text[cut.start : cut.end]

        assert all(letter in rest for letter in re.findall(r"\w", place))


@settings(max_examples=EXAMPLES, deadline=None)
@given(PAGES)
def test_passages_are_not_empty_and_within_limit(page: Page) -> None:
    sizes = [count_tokens(content) for content in page_texts(page)]

    assert all(0 < size <= MAX_TOKENS for size in sizes)


@settings(max_examples=EXAMPLES, deadline=None)
@given(PAGES)
def test_words_are_not_split(page: Page) -> None:
    places = {place for cut in page_spans(page) for place in (cut.start, cut.end)}
    longest = max(map(count_tokens, page.text.split()), default=0)

    assert longest > MAX_TOKENS // 2 or not any(
        is_within_word(page.text, place) for place in places
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(PAGES)
def test_overlap_is_limited(page: Page) -> None:
    spans = list(page_spans(page))
    again = [page.text[after.start : before.end] for before, after in pairwise(spans)]

    assert all(count_tokens(text) <= OVERLAP_RATIO * MAX_TOKENS for text in again)


LONG = {
    "one line": "abcdefghij0123456789" * 50_000,
    "one paragraph": LANGUAGES["English"] * 13_000,
    "one line of Chinese": LANGUAGES["Chinese"] * 10_000,
    "lines": "2026-11-21 12:00:03,7 INFO GET /api/items/7 status=200 took 12 ms\n" * 15_000,
}


@pytest.mark.parametrize("markdown", [False, True])
@pytest.mark.parametrize("kind", LONG)
def test_splitting_a_megabyte_is_complete_and_fast(kind: str, markdown: bool) -> None:
    page = Page(LONG[kind], markdown=markdown)
    began = time.monotonic()
    spans = list(page_spans(page))

    assert time.monotonic() - began < 30  # a few seconds; it was minutes for a line
    assert uncovered(page, spans) == ""
    assert max(count_tokens(cut.content) for cut in spans) <= MAX_TOKENS


@pytest.mark.parametrize("language", LANGUAGES)
def test_very_long_text_is_split_between_sentences(language: str) -> None:
    parts = page_texts(Page(LANGUAGES[language] * 900))

    assert all(part[-1] in ".。।؟" for part in parts)


@pytest.mark.parametrize("language", LANGUAGES)
def test_passages_overlap_by_whole_sentences(language: str) -> None:
    text = LANGUAGES[language] * 40

    first, second, *_ = page_texts(Page(text))

    again = max((n for n in range(1, 200) if first.endswith(second[:n].rstrip())), default=0)
    assert again >= 15
    assert text.strip().startswith(second[:10]) or second[:10] in LANGUAGES[language]


@pytest.mark.parametrize("language", LANGUAGES)
def test_long_text_is_split_between_sentences(language: str) -> None:
    parts = page_texts(Page(LANGUAGES[language] * 40))

    assert len(parts) > 2
    assert all(part[-1] in ".。।؟" for part in parts)


def test_table_rows_are_not_repeated() -> None:
    rows = "".join(f"| Row {number}. | It costs ${number}. |\n" for number in range(90))
    text = f"# Costs\n\n| A | B |\n|---|---|\n{rows}\nAfter it. Another sentence.\n"

    parts = page_texts(Page(text, markdown=True))

    assert len(parts) > 2
    for number in range(90):
        assert sum(f"| Row {number}. |" in part for part in parts) == 1


@pytest.mark.parametrize("markdown", [False, True])
def test_heading_is_not_separated_from_its_text(markdown: bool) -> None:
    sentences = "A sentence of some words stands here. " * 31
    text = "\n\n".join(f"Heading {number}\n{sentences}" for number in range(5))

    parts = page_texts(Page(text, markdown=markdown))

    for number in range(5):
        [holder] = [part for part in parts if f"Heading {number}" in part]
        assert f"Heading {number}\nA sentence of" in holder


def test_table_is_not_separated_from_its_introduction() -> None:
    rows = "".join(f"| Row {number} | It costs ${number} |\n" for number in range(90))
    text = f"# Costs\n\nWhat each row costs:\n\n| A | B |\n|---|---|\n{rows}"

    first, *_ = page_texts(Page(text, markdown=True))

    assert first.startswith("Costs\n\nWhat each row costs:\n\n| A | B |\n|---|---|\n| Row 0 |")


def test_table_after_long_text_starts_with_header() -> None:
    rows = "".join(f"| Row {number} | It costs ${number} |\n" for number in range(12))
    sentences = "A sentence of some words stands here. " * 18
    text = f"{sentences}\n\nWhat it costs.\n\n| A | B |\n|---|---|\n{rows}"

    *_, table = page_texts(Page(text, markdown=True))

    assert table.startswith("| A | B |")


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ("# Intranet\n\n# Leave\n\nText.\n", ["Intranet\nLeave\n\nText."]),
        ("# A\n\n## B\n\n## C\n\nText.\n", ["A > B\nA > C\n\nText."]),
        ("# A\n## B\n# C\n## D\nText.\n# E\nMore.\n", ["A > B\nC > D\n\nText.", "E\n\nMore."]),
        ("# A\n\nText.\n\n# Last\n", ["A\n\nText.", "Last"]),
    ],
)
def test_empty_heading_is_joined_with_next_section(text: str, contents: list[str]) -> None:
    assert page_texts(Page(text, markdown=True)) == contents


def test_many_empty_headings_make_few_passages() -> None:
    text = "".join(f"## Chapter {number}\n" for number in range(300))

    parts = page_texts(Page(text, markdown=True))

    assert len(parts) < 30
    assert all(f"Chapter {number}" in "\n".join(parts) for number in range(300))


def test_image_is_a_passage_of_its_page() -> None:
    text = "Evacuation\n\nFigure 1: Ways out of the tower.\n\nUse the stairs."
    page = Page(text, 3, images=(b"one", b"two"))

    page_text, first, second = split_document("plans/fire-drill.pdf", [page])

    assert page_text.image is None
    assert (first.image, second.image) == (b"one", b"two")
    assert {page_text.sourcepage, first.sourcepage} == {"plans/fire-drill.pdf#page=3"}
    assert first.id == page_text.id.removesuffix("-1") + "-i1"
    assert first.content.splitlines() == [
        "Picture on page 3 of fire drill (plans/fire-drill.pdf)",
        "Figure 1: Ways out of the tower.",
        "Evacuation",
        "Figure 1: Ways out of the tower. Use the stairs.",
    ]


def test_image_file_is_described_by_its_path() -> None:
    [passage] = split_document("board/org-chart_2024.png", [Page("", images=(b"x",))])

    assert passage.content == "Picture: board org chart 2024 (board/org-chart_2024.png)"
    assert passage.sourcepage == "board/org-chart_2024.png"


def test_description_replaces_page_text() -> None:
    [passage] = split_document("board/chart.png", [Page("", images=(b"x",))])

    described = with_description(passage, " Three boxes. ")

    assert described.content == "Picture: board chart (board/chart.png)\n\nThree boxes."
    assert (described.id, described.image) == (passage.id, b"x")
    assert count_tokens(with_description(passage, "word " * 900).content) <= MAX_TOKENS


def test_path_that_cannot_be_cited_is_rejected() -> None:
    assert len(list(split_document("a/" * 510 + "a.md", [Page("text")]))) == 1
    with pytest.raises(UnreadableDocument, match=r"^Its path is too long to be cited\.$"):
        list(split_document("a/" * 511 + "a.md", [Page("text")]))
    with pytest.raises(
        UnreadableDocument, match=r"^Its path has a line break: no link would open it\.$"
    ):
        list(split_document("a\nSources: b.md", [Page("text")]))


def test_front_matter_category_overrides_folder() -> None:
    [passage] = split_document("plans/a.md", [Page("text")], "people")

    assert passage.category == "people"


def test_many_headings_may_stand_below_a_long_one() -> None:
    def read(count: int) -> Callable[[], int]:
        page = Page(f"# {'x ' * 4 * count}\n" + "## a\n" * count, markdown=True)
        return lambda: len(page.text) - list(page_spans(page))[-1].end

    assert check_growth(read, 1_000) == 0


@pytest.mark.parametrize("markdown", [True, False])
def test_passage_begins_with_its_heading(markdown: bool) -> None:
    page = Page("# A\n\n## B\n\none", markdown=markdown)
    (passage,) = split_document("a.md", [page])

    assert passage.heading == ("A > B" if markdown else "")
    assert passage.content.startswith(passage.heading)


def test_category_is_the_top_folder() -> None:
    names = ("plans/deep/a.md", "a.md")

    categories = [
        passage.category for name in names for passage in split_document(name, [Page("text")])
    ]

    assert categories == ["plans", ""]


def test_brackets_are_encoded_in_citations() -> None:
    [passage] = split_document("plans/[old] 100% #1.pdf", [Page("text", 3)])

    assert passage.sourcefile == "plans/%5Bold%5D 100%25 %231.pdf"
    assert passage.sourcepage == "plans/%5Bold%5D 100%25 %231.pdf#page=3"


def test_ids_are_stable() -> None:
    [passage] = split_document("plans/a.pdf", [Page("text", 3)])

    assert passage.id == "plans-a-pdf-9863c0fa-p3-1"
