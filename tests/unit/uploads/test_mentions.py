"""Which uploads a question names by their file names."""

from __future__ import annotations

import time
import unicodedata

import pytest

from shared.domain.overrides import MAX_SEARCH_TEXT
from shared.uploads.base import State, Upload, make_id
from shared.uploads.mentions import find_mentioned, may_mention

NAMES = ("report.pdf", "annual-report.pdf", "Q3 report.pdf", "straße é.md", "報告.pdf", "تقرير.pdf")


def upload(name: str, state: State = "ready") -> Upload:
    return Upload(make_id(), "anna", name, 1, time.time(), state=state)


UPLOADS = [upload(name) for name in NAMES]
FILES = {each.sourcefile: each.name for each in UPLOADS}


def mentioned(question: str) -> list[str]:
    return [FILES[path] for path in find_mentioned(question, UPLOADS)]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What does report.pdf recommend?", ["report.pdf"]),
        ('Summarize "report.pdf".', ["report.pdf"]),
        ("Summarize (REPORT.PDF)!", ["report.pdf"]),
        ("report.pdf's second page", ["report.pdf"]),
        ("Was steht in der report.pdf-Datei?", ["report.pdf"]),
        ("- report.pdf\n-annual-report.pdf", ["report.pdf", "annual-report.pdf"]),
        ("annual-report.pdf or report.pdf?", ["annual-report.pdf", "report.pdf"]),
        ("report.pdf, report.pdf, Report.pdf", ["report.pdf"]),
        ("What is in q3\nreport.pdf?", ["Q3 report.pdf"]),
        ("STRASSE É.MD", ["straße é.md"]),
        (unicodedata.normalize("NFD", "straße é.md"), ["straße é.md"]),
        ("请总结report.pdf的内容", ["report.pdf"]),
        ("年度報告.pdfは何ですか", ["報告.pdf"]),
        ("ماذا في تقرير.pdf؟", ["تقرير.pdf"]),
        ("What does the report say?", []),
        ("monthlyreport.pdf", []),
        ("monthly-report.pdf", []),
        ("my.report.pdf", []),
        ("my_report.pdf", []),
        ("report.pdfx", []),
        ("report.pdf.zip", []),
        ("https://example.org/report.pdf", []),
        ("C:\\report.pdf", []),
        ("report_pdf", []),
    ],
)
def test_question_names_whole_file_names_alone(question: str, names: list[str]) -> None:
    assert mentioned(question) == names


def test_only_ready_uploads_are_named() -> None:
    states: tuple[State, ...] = ("queued", "reading", "failed")

    assert find_mentioned("Read a.md.", [upload("a.md", state) for state in states]) == ()
    assert find_mentioned("Read a.md.", []) == ()


def test_newest_of_one_name_is_named() -> None:
    older, newer = upload("a.md"), upload("A.md")

    assert find_mentioned("Read a.md.", [older, newer]) == (newer.sourcefile,)


def test_name_is_no_pattern() -> None:
    names = ("a.md", "(b).md", "[c].md", "d+.md")
    uploads = [upload(name) for name in names]

    assert find_mentioned("axmd bxmd c.md ddd.md", uploads) == ()
    assert len(find_mentioned("(b).md [c].md d+.md a.md", uploads)) == 4


def test_beginning_and_end_of_a_long_question_count() -> None:
    pasted = "word " * MAX_SEARCH_TEXT

    assert mentioned(f"In report.pdf: {pasted}") == mentioned(f"{pasted} in report.pdf")
    assert mentioned(f"{pasted} in report.pdf") == ["report.pdf"]
    assert mentioned(f"{pasted} report.pdf {pasted}") == []


@pytest.mark.parametrize(
    ("question", "expected"),
    [("What is it?", False), ("It is. Or not ...", False), ("In a.md?", True), ("1.5 %", True)],
)
def test_question_without_an_extension_names_nothing(question: str, expected: bool) -> None:
    assert may_mention(question) is expected
