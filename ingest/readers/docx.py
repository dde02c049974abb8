"""Reads DOCX by way of HTML, without its images."""

from __future__ import annotations

from pathlib import Path

import mammoth

from ingest.document import Content, Page
from ingest.readers.html import html_to_markdown
from ingest.readers.office import open_office_file

# The title stands above all other headings.
_STYLES = "\n".join(
    (
        "p[style-name='Title'] => h1:fresh",
        "p.Title => h1:fresh",
        "p[style-name='Subtitle'] => p:fresh",
        *(f"p[style-name='heading {level}'] => h{level + 1}:fresh" for level in range(1, 6)),
        *(f"p.Heading{level} => h{level + 1}:fresh" for level in range(1, 6)),
    )
)


def read_docx(path: Path) -> Content:
    """Read a DOCX with its headings, lists, tables and notes."""
    with open_office_file(path) as file:
        # An image gets no attributes but its alternative text: by default its data in base64.
        result = mammoth.convert_to_html(
            file, convert_image=mammoth.images.img_element(lambda _: {}), style_map=_STYLES
        )
    return Content((Page(html_to_markdown(result.value), markdown=True),))
