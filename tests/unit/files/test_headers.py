"""The media types of files."""

from __future__ import annotations

import pytest

from shared.files.headers import disposition_headers, guess_media_type


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


@pytest.mark.parametrize("name", ["a.pdf", "a.md", "a.csv", "a.json", "a.PNG", "a.jpg"])
def test_file_that_runs_no_script_is_displayed(name: str) -> None:
    assert disposition_headers(f"plans/{name}") == {
        "Content-Disposition": f"inline; filename=\"{name}\"; filename*=UTF-8''{name}"
    }


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.xml", "a.xhtml", "a.docx", "a"])
def test_other_file_is_a_download_and_sandboxed(name: str) -> None:
    headers = disposition_headers(name)

    assert headers["Content-Disposition"].startswith(f'attachment; filename="{name}"')
    assert headers["Content-Security-Policy"] == "sandbox"


def test_name_of_a_download_cannot_end_its_header() -> None:
    headers = disposition_headers('a"b\\c%ü\n.md')

    assert headers["Content-Disposition"] == (
        "inline; filename=\"a_b_c___.md\"; filename*=UTF-8''a%22b%5Cc%25%C3%BC%0A.md"
    )
