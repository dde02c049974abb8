"""DOCX: made into HTML by its styles, then read as that. Pictures are left out of the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mammoth

from shared.ingest.document import Content, Page
from shared.ingest.readers.html import html_to_markdown
from shared.ingest.readers.office import open_office_file

_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def read_docx(path: Path) -> Content:
    """The text of a DOCX with its headings, lists, tables and notes."""
    with open_office_file(path) as file:
        # What is not given here comes into the text as base64.
        made = mammoth.convert_to_html(
            file, convert_image=mammoth.images.img_element(_no_attributes), style_map=_STYLES
        )
    return Content((Page(html_to_markdown(made.value), markdown=True),))


def _no_attributes(image: Any) -> dict[str, str]:
    """The attributes of an image, beyond the words that stand for it."""
    return {}
