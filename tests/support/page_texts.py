"""The texts into which a page is split."""

from __future__ import annotations

from ingest.document import Page
from ingest.splitting.passages import page_spans


def page_texts(page: Page) -> list[str]:
    """Split a page; return the contents of its passages."""
    return [span.content for span in page_spans(page)]
