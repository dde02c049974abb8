"""The passages of a file in indexes of Azure AI Search: other tools' indexes, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.domain.errors import Misconfigured, Unavailable, Unsupported
from shared.retrieval.azure_search.index_fields import IndexFields
from tests.support.retrievers import (
    BOTH,
    NOBODY,
    OWN_NAMES,
    azure_search,
    ids,
    passage,
    read,
    run_fake_search,
)
from tests.support.upstream import error_response

STORED = [passage("mixed.md", 0, "1")]
OYD = IndexFields(
    sourcepage="filepath",
    sourcefile="filepath",
    category="",
    oids="",
    groups="",
    embedding="contentVector",
    image="",
    title="title",
    url="url",
    chunk="chunk_id",
)


def chunk(id: str, filepath: str | None, number: int, key: str) -> dict[str, Any]:
    text = f'{{"chunk_id": "{number}"}}' if key == "metadata" else str(number)
    title = "The plan" if filepath else "About us"
    file = {"filepath": filepath, "title": title, "url": f"https://site.example/{id}"}
    return {"id": id, "content": f"Text {id}.", **file, key: text}


@pytest.mark.parametrize("key", ["chunk_id", "metadata"])
@pytest.mark.parametrize("unfilterable", [(), {"filepath"}])
def test_an_index_of_on_your_data_is_read_by_filepath(key: str, unfilterable: set[str]) -> None:
    ids_by_number = [f"{(number * 7919) % 2203:05}" for number in range(2203)]
    docs = [
        *(chunk(id, "plans/a[1].pdf", number, key) for number, id in enumerate(ids_by_number)),
        chunk("other", "plans/a[1].pdf.md", 0, key),
        *(chunk(f"web-{number}", None, 0, key) for number in (10, 2)),
    ]
    selects = ({*OYD.select_fields()} - {"chunk_id"} | {key}, {"id"})
    options = {"selects": selects, "sample": docs[0], "unfilterable": unfilterable}
    with run_fake_search(sorted(docs, key=lambda doc: doc["content"]), OYD, **options) as (run, _):
        file = run(read("plans/a[1].pdf"))
        web_pages = run(read("About us"))
        readable = run(lambda index: index.readable(NOBODY, "plans/a%5B1%5D.pdf", BOTH))

    assert ids(file) == ids_by_number
    assert {source.sourcefile for source in file} == {"plans/a[1].pdf"}
    assert (file[12].sourcepage, file[12].title) == ("plans/a%5B1%5D.pdf#12", "The plan")
    assert file[12].url == f"https://site.example/{file[12].id}"
    assert ids(web_pages) == ["web-2", "web-10"]
    assert readable is False


def test_no_passage_is_repeated_where_the_service_cannot_sort(tmp_path: Path) -> None:
    passages = [passage("book.pdf", page, "1") for page in range(1, 2306)]
    with azure_search(OWN_NAMES, sortable=())(passages, tmp_path) as run:
        result = ids(run(read("book.pdf")))

    assert len(result) > 1000
    assert result == [id for id in ids(passages) if id in result]


def test_an_index_that_cannot_look_up_a_name_says_so(tmp_path: Path) -> None:
    make = azure_search(OWN_NAMES, unfilterable={"file"}, searchable=())
    with make(STORED, tmp_path) as run, pytest.raises(Unsupported, match="by their names"):
        run(read("mixed.md"))


def test_the_app_s_own_index_must_have_its_fields(tmp_path: Path) -> None:
    make = azure_search(IndexFields(), unfilterable={"sourcefile"})
    with make(STORED, tmp_path) as run, pytest.raises(Misconfigured):
        run(read("mixed.md"))


def test_a_service_that_fails_is_an_error_and_no_empty_file() -> None:
    with run_fake_search([], IndexFields()) as (run, search):
        search.plan += [error_response(503)] * 9
        with pytest.raises(Unavailable):
            run(read("a.md"))


def test_a_word_of_many_names_does_not_read_the_whole_index() -> None:
    docs = [chunk(str(number), f"plans/{number}.pdf", 0, "chunk_id") for number in range(3000)]
    options = {"sample": docs[0], "unfilterable": {"filepath"}}
    with run_fake_search(docs, OYD, **options) as (run, search):
        assert run(read("plans")) == ()
        phrases = [request for request in search.requests if "searchFields" in request.body]

    assert len(phrases) == 1
