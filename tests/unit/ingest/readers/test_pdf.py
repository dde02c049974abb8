"""A page of a PDF is read in a time that grows with its size, and not with its square."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from pypdf import PageObject

from ingest.readers.pdf import page_text
from tests.support.growth import check_growth


class FakePage:
    """A page of a PDF, of lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines

    def extract_text(self, visitor_text: Callable[..., None], **_: object) -> None:
        """Give each line."""
        for number, line in enumerate(self.lines):
            place = [1.0, 0.0, 0.0, 1.0, 0.0, -float(number)]
            visitor_text(f"{line}\n", place, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0], None, 10.0)


def test_a_page_of_a_pdf_may_have_many_lines() -> None:
    def read(count: int) -> Callable[[], str]:
        page = FakePage("sen-", "tence", *["word " * 20] * count)
        return lambda: page_text(cast(PageObject, page), set())

    assert check_growth(read, 6_000).startswith("sen-tence word")
