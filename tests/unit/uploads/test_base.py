"""Names and ids of uploads."""

from __future__ import annotations

import pytest

from shared.domain.errors import BadRequest
from shared.uploads.base import MAX_NAME, Upload, clean_name, make_id, upload_id


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("C:\\Users\\anna\\report.pdf", "report.pdf"),
        ("/home/anna/report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        (" Bericht\u00a0f\u0075\u0308r\n Anna\x00.pdf ", "Bericht f\u00fcr  Anna.pdf"),
        ("a" * MAX_NAME, "a" * MAX_NAME),
        ("\u202egpj.exe", "gpj.exe"),
    ],
)
def test_name_has_no_folder_and_no_control_character(sent: str, kept: str) -> None:
    assert clean_name(sent) == kept


@pytest.mark.parametrize("sent", ["", " ", ".", "..", "a/", "x/..", "a" * (MAX_NAME + 1)])
def test_name_of_no_file_is_refused(sent: str) -> None:
    with pytest.raises(BadRequest):
        clean_name(sent)


def test_document_names_its_upload() -> None:
    upload = Upload(make_id(), "anna", "50% #1 [new].pdf", 1, 0)

    assert upload.sourcefile == f"{upload.id}/50%25 %231 %5Bnew%5D.pdf"
    assert upload_id(upload.sourcefile) == upload.id
    assert "anna" not in upload.sourcefile


@pytest.mark.parametrize(
    "name",
    [
        "report.pdf",
        "upload-abc/report.pdf",
        f"upload-{'a' * 16}",
        "x/upload-abcdefghijklmnop/a.pdf",
    ],
)
def test_other_documents_are_no_uploads(name: str) -> None:
    assert upload_id(name) is None
