"""Reads DOCX by way of HTML, without its images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mammoth

from shared.ingest.document import Content, Page
from shared.ingest.readers.html import html_to_markdown
from shared.ingest.readers.office import open_office_file

_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def read_docx(path: Path) -> Content:
    """Read a DOCX with its headings, lists, tables and notes."""
    with open_office_file(path) as file:
        # Without `convert_image`, images would be in the text as base64.
        result = mammoth.convert_to_html(
            file, convert_image=mammoth.images.img_element(_no_attributes), style_map=_STYLES
        )
    return Content((Page(html_to_markdown(result.value), markdown=True),))


def _no_attributes(image: Any) -> dict[str, str]:
    """No attributes for an image but its alternative text."""
    return {}
