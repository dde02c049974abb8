"""Splits the sample documents into passages, and regenerates the committed samples."""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest
from pypdf import PdfReader

from evals.questions import SAMPLE_QUESTIONS, read_questions
from ingest.document import Page
from ingest.readers.file_reader import read_file
from ingest.samples import DATA, list_files, main, read_passages, write_samples
from ingest.splitting.packing import split_text
from ingest.splitting.passages import MAX_TOKENS, Passage, page_texts, split_document
from shared.text import count_tokens

DOCUMENTS = DATA / "documents"
FILES = tuple(path.relative_to(DOCUMENTS).as_posix() for path in list_files(DOCUMENTS))
PDF = "plans/northwind_health_plus.pdf"

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


def sample(name: str) -> tuple[Passage, ...]:
    return read_passages(DOCUMENTS, DOCUMENTS / name)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def letters_in_order(needle: str, hay: str) -> bool:
    rest = iter("".join(words(hay)))
    return all(letter in rest for letter in "".join(words(needle)))


def test_regenerated_samples_equal_the_committed_file(tmp_path: Path) -> None:
    write_samples(DOCUMENTS, tmp_path / "samples.jsonl")

    committed = (DATA / "samples.jsonl").read_bytes()

    assert (tmp_path / "samples.jsonl").read_bytes() == committed


def test_json_line_has_passage_fields_in_order() -> None:
    first, *_ = (DATA / "samples.jsonl").read_text("utf-8").splitlines()

    keys = ["id", "content", "sourcepage", "sourcefile", "category", "oids", "groups", "heading"]

    assert list(json.loads(first)) == keys


@pytest.mark.parametrize("markdown", [True, False])
def test_passage_begins_with_its_heading(markdown: bool) -> None:
    page = Page("# A\n\n## B\n\none", markdown=markdown)
    (passage,) = split_document("a.md", [page])

    assert passage.heading == ("A > B" if markdown else "")
    assert passage.content.startswith(passage.heading)


@pytest.mark.parametrize("name", FILES)
def test_passages_have_all_words_in_order(name: str) -> None:
    text = "\n".join(page.text for page in read_file(DOCUMENTS / name).pages)
    remaining = iter(words("\n".join(passage.content for passage in sample(name))))

    lost = [word for word in words(text) if word not in remaining]

    assert lost == []


@pytest.mark.parametrize("kind", TEXTS)
def test_passages_of_unusual_text_have_all_characters(kind: str) -> None:
    parts = tuple(page_texts(Page(TEXTS[kind], markdown=True)))

    assert letters_in_order(TEXTS[kind], "".join(parts))


@pytest.mark.parametrize("kind", TEXTS)
def test_passages_of_unusual_text_are_within_limit(kind: str) -> None:
    sizes = [count_tokens(part) for part in page_texts(Page(TEXTS[kind], markdown=True))]

    assert min(sizes) > 0
    assert max(sizes) <= MAX_TOKENS


@pytest.mark.parametrize("name", FILES)
def test_sample_passages_are_within_limit(name: str) -> None:
    assert max(count_tokens(passage.content) for passage in sample(name)) <= MAX_TOKENS


@pytest.mark.parametrize("kind", TEXTS)
def test_joined_chunks_equal_the_text(kind: str) -> None:
    assert "".join(split_text(TEXTS[kind], 40)) == TEXTS[kind]


def test_text_is_not_split_within_words() -> None:
    parts = tuple(page_texts(Page("deductible " * 300)))

    assert len(parts) > 1
    assert set(words(" ".join(parts))) == {"deductible"}


def test_passage_starts_with_heading_path() -> None:
    dental = next(
        passage for passage in sample("plans/northwind_standard.md") if "braces" in passage.content
    )

    assert dental.content.startswith("Northwind Standard > Dental\n\n")


def test_higher_heading_replaces_heading_path() -> None:
    text = "# A\n\n## B\n\none\n\n### C\n\ntwo\n\n## D\n\nthree"

    parts = list(page_texts(Page(text, markdown=True)))

    assert parts == ["A > B\n\none", "A > B > C\n\ntwo", "A > D\n\nthree"]


def test_all_parts_of_a_section_have_headings() -> None:
    parts = tuple(page_texts(Page(TEXTS["a long paragraph"], markdown=True)))

    assert len(parts) > 1
    assert all(part.startswith("Plans > Costs\n\n") for part in parts)


def test_trailing_empty_heading_is_a_passage() -> None:
    parts = list(page_texts(Page(TEXTS["headings with nothing under them"], markdown=True)))

    assert parts == ["Title > Empty\nTitle > Full\n\nText.", "Last"]


def test_comment_in_code_block_is_not_a_heading() -> None:
    parts = list(page_texts(Page(TEXTS["code that looks like a heading"], markdown=True)))

    assert parts == ["Title\n\n```sh\n# not a heading\nls\n```\n\nText."]


def test_all_parts_of_a_table_have_its_header() -> None:
    parts = [part for part in page_texts(Page(TEXTS["a long table"], markdown=True)) if "$" in part]

    assert len(parts) > 1
    assert all(part.count("| Benefit | Plus | Standard |\n|---|:-:|---|") == 1 for part in parts)


def test_table_within_limit_is_not_split() -> None:
    table = "".join(TABLE.splitlines(keepends=True)[:10])
    text = f"# Plans\n\n{'An introduction of some length. ' * 15}\n\n{table}\n"

    parts = tuple(page_texts(Page(text, markdown=True)))

    assert len(parts) == 2
    assert table.strip() in parts[1]


def test_citation_has_page_number() -> None:
    braces = next(passage for passage in sample(PDF) if "braces" in passage.content)

    assert braces.sourcepage == f"{PDF}#page=4"
    assert braces.sourcefile == PDF


def test_pdf_passages_do_not_span_pages() -> None:
    pages = PdfReader(DOCUMENTS / PDF).pages

    for passage in sample(PDF):
        number = int(passage.sourcepage.rpartition("=")[2])
        text = passage.content.removeprefix(passage.heading)
        assert letters_in_order(text, pages[number - 1].extract_text())


def test_pdf_lines_are_joined_to_sentences() -> None:
    contents = [passage.content for passage in sample(PDF)]

    sentence = (
        "Northwind Health Plus covers emergency room visits at any hospital, "
        "in or out of network, with a copay of $150."
    )

    assert any(sentence in content for content in contents)


def test_pdf_heading_is_on_its_own_line() -> None:
    lines = [line for passage in sample(PDF) for line in passage.content.splitlines()]

    assert "Hearing care" in lines
    assert lines[lines.index("Hearing care") + 1].startswith("Northwind Health Plus covers one")


def test_text_without_pages_is_cited_by_path() -> None:
    assert {passage.sourcepage for passage in sample("company/roles.txt")} == {"company/roles.txt"}


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


def test_ids_are_unique_and_valid_keys() -> None:
    names = ("a/b.md", "a-b.md", "a b.md", "ü.md", "ä.md", "_index.md", "index.md", "__")
    odd = [passage.id for name in names for passage in split_document(name, [Page(LONG, 1)])]

    ids = odd + [passage.id for name in FILES for passage in sample(name)]

    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9=-][A-Za-z0-9_=-]*", key) for key in ids)


def test_ids_are_stable() -> None:
    [passage] = split_document("plans/a.pdf", [Page("text", 3)])

    assert passage.id == "plans-a-pdf-9863c0fa-p3-1"


def test_files_are_sorted_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a-b.txt", ".hidden", ".git/config.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")

    names = [path.relative_to(tmp_path).as_posix() for path in list_files(tmp_path)]

    assert names == ["a-b.txt", "a/z.txt", "b.txt"]


def test_byte_order_mark_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a.TXT").write_bytes("\ufeffGrüße".encode())

    assert read_file(tmp_path / "a.TXT").pages == (Page("Grüße"),)


def test_command_reports_unreadable_file_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "empty.md").touch()

    status = main(tmp_path)

    assert status == 1
    assert capsys.readouterr().err == "empty.md: It is empty.\n"
    assert not (tmp_path / "samples.jsonl").exists()


def test_command_prints_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "a.md").write_text("# A\n\none\n\n# B\n\ntwo")

    status = main(tmp_path)

    assert status == 0
    assert capsys.readouterr().out.startswith("1 files, 2 passages written to ")


def test_pages_of_the_sample_questions_have_their_facts() -> None:
    texts: dict[str, str] = defaultdict(str)
    for passage in (passage for name in FILES for passage in sample(name)):
        texts[passage.sourcepage] += passage.content.lower()

    for question in read_questions(SAMPLE_QUESTIONS):
        facts = [fact.lower() for alternatives in question.facts for fact in alternatives]
        for page in (page for pages in question.citations for page in pages):
            assert any(fact in texts[page] for fact in facts), question
