"""The media types of files."""

from __future__ import annotations

import pytest

from shared.files.headers import guess_media_type


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.md", "text/markdown"),
        ("a.markdown", "text/markdown"),
        ("A.PDF", "application/pdf"),
        ("a.txt", "text/plain"),
        ("a.csv", "text/csv"),
        ("a.json", "application/json"),
        ("a.png", "image/png"),
        ("a.jpg", "image/jpeg"),
        ("a.svg", "image/svg+xml"),
        ("a.html", "text/html"),
        ("a.b/c", "application/octet-stream"),
        ("a.exe", "application/octet-stream"),
    ],
)
def test_media_type_follows_from_the_suffix(name: str, media_type: str) -> None:
    assert guess_media_type(name) == media_type
