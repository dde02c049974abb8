"""Splits the sample documents into passages, and regenerates the committed samples."""

import json
import re
from pathlib import Path

import pytest
from pypdf import PdfReader

from ingest.document import Page
from ingest.readers.file_reader import read_file
from ingest.samples import DATA, list_files, main, read_passages, write_samples
from ingest.splitting.passages import MAX_TOKENS, Passage, split_document
from shared.text import count_tokens

DOCUMENTS = DATA / "documents"
FILES = tuple(path.relative_to(DOCUMENTS).as_posix() for path in list_files(DOCUMENTS))
PDF = "plans/northwind_health_plus.pdf"

LONG = "word " * 400


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


@pytest.mark.parametrize("name", FILES)
def test_passages_have_all_words_in_order(name: str) -> None:
    text = "\n".join(page.text for page in read_file(DOCUMENTS / name).pages)
    remaining = iter(words("\n".join(passage.content for passage in sample(name))))

    lost = [word for word in words(text) if word not in remaining]

    assert lost == []


@pytest.mark.parametrize("name", FILES)
def test_sample_passages_are_within_limit(name: str) -> None:
    assert max(count_tokens(passage.content) for passage in sample(name)) <= MAX_TOKENS


def test_passage_starts_with_heading_path() -> None:
    dental = next(
        passage for passage in sample("plans/northwind_standard.md") if "braces" in passage.content
    )

    assert dental.content.startswith("Northwind Standard > Dental\n\n")


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


def test_ids_are_unique_and_valid_keys() -> None:
    names = ("a/b.md", "a-b.md", "a b.md", "ü.md", "ä.md", "_index.md", "index.md", "__")
    odd = [passage.id for name in names for passage in split_document(name, [Page(LONG, 1)])]

    ids = odd + [passage.id for name in FILES for passage in sample(name)]

    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9=-][A-Za-z0-9_=-]*", key) for key in ids)


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
