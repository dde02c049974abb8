"""Length limits of parsed headers: longer ones are ignored or a 4xx."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from shared.app import ROUTES
from shared.domain.events import Source
from shared.files.folder import FolderFiles
from shared.http.auth import MAX_PRINCIPAL_LENGTH, AccessPolicy
from shared.http.call import MAX_HEADER_LENGTH, without_long_headers
from shared.protocols.content import ContentConfig
from shared.protocols.exchange import App
from tests.support.calls import JSON, BufferedReply, ask, call
from tests.support.fakes import FakeRetriever, make_rag

PADDING = " " * MAX_HEADER_LENGTH


def chat(route: str, headers: Mapping[str, str], service: App | None = None) -> BufferedReply:
    return ask(call(route, headers=JSON | dict(headers)), service)


def test_too_long_content_type_is_a_415() -> None:
    response = chat("/chat", {"content-type": 'application/json; a="' + ";" * MAX_HEADER_LENGTH})

    assert response.status == 415
    assert response.json == {"error": "The Content-Type has more than 2000 characters."}


def test_too_long_accept_is_ignored() -> None:
    short = chat("/chat/stream", {"accept": "application/x-ndjson"})
    long = chat("/chat/stream", {"accept": f"application/x-ndjson,{PADDING}"})

    assert (short.media_type, long.media_type) == ("application/x-ndjson", "application/jsonl")


@pytest.fixture
def documents(tmp_path: Path) -> App:
    """A service with one file of five bytes."""
    (tmp_path / "a.txt").write_text("abcde")
    source = FakeRetriever([Source("1", "abcde", "a.txt", "a.txt")])
    return App(make_rag(retriever=source), configs=(ContentConfig(FolderFiles(tmp_path)),))


def open_file(service: App, **headers: str) -> BufferedReply:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(call("/content/{path}", b"", names, method="GET", path="a.txt"), service)


def test_too_long_condition_is_ignored(documents: App) -> None:
    etag = open_file(documents).headers["ETag"]

    assert open_file(documents, if_none_match=etag).status == 304
    assert open_file(documents, if_none_match=f"{etag}, {PADDING}").status == 200
    assert open_file(documents, range="bytes=1-2").data == b"bc"
    assert open_file(documents, range=f"bytes=1-2{PADDING}").data == b"abcde"


def test_range_with_a_failed_or_too_long_if_range_is_ignored(documents: App) -> None:
    stale = open_file(documents, range="bytes=1-2", if_range='"stale"')
    long = open_file(documents, range="bytes=1-2", if_range=f'"stale{PADDING}"')

    assert (stale.status, long.status) == (200, 200)


@pytest.mark.parametrize("name", ["traceparent", "tracestate"])
def test_too_long_trace_context_is_dropped(name: str) -> None:
    short = without_long_headers({name: "x" * MAX_HEADER_LENGTH, "x-other": "x" * 9000})
    long = without_long_headers({name: "x" * (MAX_HEADER_LENGTH + 1), "x-other": "x" * 9000})

    assert set(short) == {name, "x-other"}
    assert set(long) == {"x-other"}


@pytest.mark.parametrize("route", sorted(ROUTES.keys() & {"/chat", "/ask", "/v1/chat/completions"}))
def test_too_long_principal_is_a_400(route: str) -> None:
    service = App(make_rag(), AccessPolicy(sign_in=True))
    headers = {"x-ms-client-principal-id": "anna"}
    response = chat(
        route, {**headers, "x-ms-client-principal": "e" * (MAX_PRINCIPAL_LENGTH + 1)}, service
    )

    assert response.status == 400
    assert b"X-MS-CLIENT-PRINCIPAL has more than 32768 characters." in response.data
