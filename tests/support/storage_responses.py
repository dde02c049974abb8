"""Responses of a storage account, for a server that fails."""

from __future__ import annotations

from tests.support.upstream import Step


def make_head(status: int, headers: dict[str, str]) -> bytes:
    """Make the head of a response about a blob."""
    dates = {"ETag": '"0x1"', "Last-Modified": "Mon, 01 Jan 2001 00:00:00 GMT"}
    all_headers = {"x-ms-blob-type": "BlockBlob", **dates, **headers}
    lines = [f"HTTP/1.1 {status} X", *(f"{key}: {value}" for key, value in all_headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def make_error(status: int, code: str = "", **headers: str) -> list[Step]:
    """Make an error response without a body, as for HEAD."""
    header_names = {name.replace("_", "-"): value for name, value in headers.items()}
    return [make_head(status, {"x-ms-error-code": code, "Content-Length": "0", **header_names})]
