"""Texts are split into passages that have all of them, within a limit."""

from __future__ import annotations

import re

import pytest

from ingest.document import Page
from ingest.splitting.packing import split_text
from ingest.splitting.passages import MAX_TOKENS
from shared.text import count_tokens
from tests.support.page_texts import page_texts

ROWS = "".join(f"| Benefit {number} | ${number} copay | not covered |\n" for number in range(60))
TABLE = "| Benefit | Plus | Standard |\n|---|:-:|---|\n" + ROWS
LONG = "word " * 400
TEXTS = {
    "a long table": f"# Plans\n\nWhat they cost.\n\n{TABLE}\nAfter the table.\n",
    "a long paragraph": f"# Plans\n\n## Costs\n\n{LONG}",
    "an endless word": "# Word\n\n" + "abcdefghij" * 400,
    "an endless heading": f"# Title\n\n## {LONG}\n\nUnder it.\n\n### Deeper\n\nText.",
    "headings with nothing under them": "# Title\n\n## Empty\n\n## Full\n\nText.\n\n# Last",
    "the same heading twice": "# Title\n\n## Part\n\n## Part\n\nText.",
    "a heading that begins like the next": "# Time\n\n# Time off\n\nText.",
    "code that looks like a heading": "# Title\n\n```sh\n# not a heading\nls\n```\n\nText.",
    "no heading": "Only a text.\n\n" + LONG,
    "Chinese": "# 计划\n\n" + "该计划涵盖任何医院的急诊室就诊。" * 60,
    "Windows line ends": "# Title\r\n\r\n## Part\r\n\r\nOne.\r\n\r\nTwo.\r\n",
}


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def letters_in_order(needle: str, hay: str) -> bool:
    rest = iter("".join(words(hay)))
    return all(letter in rest for letter in "".join(words(needle)))


@pytest.mark.parametrize("kind", TEXTS)
def test_passages_of_unusual_text_have_all_characters(kind: str) -> None:
    parts = page_texts(Page(TEXTS[kind], markdown=True))

    assert letters_in_order(TEXTS[kind], "".join(parts))


@pytest.mark.parametrize("kind", TEXTS)
def test_passages_of_unusual_text_are_within_limit(kind: str) -> None:
    sizes = [count_tokens(part) for part in page_texts(Page(TEXTS[kind], markdown=True))]

    assert min(sizes) > 0
    assert max(sizes) <= MAX_TOKENS


@pytest.mark.parametrize("kind", TEXTS)
def test_joined_chunks_equal_the_text(kind: str) -> None:
    assert "".join(split_text(TEXTS[kind], 40)) == TEXTS[kind]


def test_text_is_not_split_within_words() -> None:
    parts = page_texts(Page("deductible " * 300))

    assert len(parts) > 1
    assert set(words(" ".join(parts))) == {"deductible"}


def test_higher_heading_replaces_heading_path() -> None:
    text = "# A\n\n## B\n\none\n\n### C\n\ntwo\n\n## D\n\nthree"

    parts = page_texts(Page(text, markdown=True))

    assert parts == ["A > B\n\none", "A > B > C\n\ntwo", "A > D\n\nthree"]


def test_all_parts_of_a_section_have_headings() -> None:
    parts = page_texts(Page(TEXTS["a long paragraph"], markdown=True))

    assert len(parts) > 1
    assert all(part.startswith("Plans > Costs\n\n") for part in parts)


def test_trailing_empty_heading_is_a_passage() -> None:
    parts = page_texts(Page(TEXTS["headings with nothing under them"], markdown=True))

    assert parts == ["Title > Empty\nTitle > Full\n\nText.", "Last"]


def test_comment_in_code_block_is_not_a_heading() -> None:
    parts = page_texts(Page(TEXTS["code that looks like a heading"], markdown=True))

    assert parts == ["Title\n\n```sh\n# not a heading\nls\n```\n\nText."]


def test_all_parts_of_a_table_have_its_header() -> None:
    parts = [part for part in page_texts(Page(TEXTS["a long table"], markdown=True)) if "$" in part]

    assert len(parts) > 1
    assert all(part.count("| Benefit | Plus | Standard |\n|---|:-:|---|") == 1 for part in parts)


def test_table_within_limit_is_not_split() -> None:
    table = "".join(TABLE.splitlines(keepends=True)[:10])
    text = f"# Plans\n\n{'An introduction of some length. ' * 15}\n\n{table}\n"

    parts = page_texts(Page(text, markdown=True))

    assert len(parts) == 2
    assert table.strip() in parts[1]
