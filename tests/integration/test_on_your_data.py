"""An index that the tools of "Azure OpenAI On Your Data" made, used as it is, by one setting."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from shared.bootstrap.build import build, start
from shared.retrieval.azure_search.index_fields import IndexFields
from shared.retrieval.azure_search.search_fields import FieldName
from shared.settings import SettingsError, read_settings
from tests.support.calls import CHAT_KEY, ask, call, local_service
from tests.support.fake_search import FakeSearch
from tests.support.fakes import FAKE_MODEL, FakeModel, FakeRetriever, make_rag
from tests.support.search_app import app, home, signed
from tests.support.servers import SIGN_IN
from tests.support.upstream import answer_events, error_response, stream_response

__all__ = ["home"]  # a fixture

PRESET = {"AZURE_SEARCH_FIELDS": "on-your-data"}
ROUTE = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "deductible"}]
BASE = ["id", "content", "filepath", "title", "url"]
SITE = "https://site.example/plans"


def passage(id: str, filepath: str | None, number: str, key: str) -> dict[str, Any]:
    place = {"chunk_id": number} if key == "chunk_id" else {key: json.dumps({"chunk_id": number})}
    file = {"filepath": filepath, "title": f"About {id}", "url": f"{SITE}/{id}"}
    return {"id": id, "content": f"The deductible in {id}.", **file, **place}


def passages(key: str) -> list[dict[str, Any]]:
    return [
        passage("p0", "plans/a[1].pdf", "0", key),
        passage("p1", "plans/a[1].pdf", "1", key),
        passage("p2", None, "0", key),
    ]


@contextmanager
def theirs(home: Path, key: str = "chunk_id", **more: str) -> Iterator[Any]:
    """The app over such an index, whose passages have their number in `key`."""
    with app(home, **PRESET, CHAT_MODEL="openai", **more) as parts:
        search: FakeSearch = parts[0]
        search.docs, search.sample = passages(key), passage("x", "x", "0", key)
        search.selects = ({*BASE, key}, {"id"})
        yield parts


def chat(client: httpx.Client, **more: Any) -> httpx.Response:
    return client.post(ROUTE, json={"messages": QUESTION, **more})


@pytest.mark.parametrize("key", ["chunk_id", "metadata"])
def test_each_passage_has_its_own_citation(home: Path, key: str) -> None:
    with theirs(home, key) as (search, model, client):
        client.get("/health")
        search.requests.clear()
        cited = "[plans/a%5B1%5D.pdf#1], [About p2#p2], [plans/a%5B1%5D.pdf]."
        model.plan += [stream_response(answer_events(*cited))] * 2
        message = chat(client).json()["choices"][0]["message"]
        pages = client.post("/chat", json={"messages": QUESTION}).json()

    assert message["content"] == "[doc2], [doc3], [plans/a%5B1%5D.pdf]."
    assert message["context"]["citations"] == [
        {
            "content": f"The deductible in {id}.",
            "title": f"About {id}",
            "url": f"{SITE}/{id}",
            "filepath": file,
            "chunk_id": id,
        }
        for id, file in (("p0", "plans/a[1].pdf"), ("p1", "plans/a[1].pdf"), ("p2", "About p2"))
    ]
    markers = ["plans/a%5B1%5D.pdf#0", "plans/a%5B1%5D.pdf#1", "About p2#p2"]
    assert pages["context"]["data_points"]["citations"] == markers
    for request in search.requests:
        assert set(request.body["select"].split(",")) == {*BASE, key}
        assert "filter" not in request.body


def test_files_of_an_index_with_urls_are_not_served(home: Path) -> None:
    folder = home / "files" / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.md").write_text("Not for the app to show.")
    with theirs(home, DOCUMENTS_PATH=str(folder.parent)) as (search, _, client):
        assert client.get("/content/plans/a.md").status_code == 404
        assert search.requests == []


def test_vectors_are_searched(home: Path) -> None:
    with theirs(home, OPENAI_EMBEDDING_MODEL="e") as (search, _, client):
        assert chat(client).status_code == 200
        (vectors,) = search.requests[-1].body["vectorQueries"]

    assert vectors["fields"] == "contentVector"


def test_chunk_field_name_is_detected_once(home: Path) -> None:
    with theirs(home, "metadata") as (search, _, client), ThreadPoolExecutor(8) as pool:
        statuses = {got.status_code for got in pool.map(lambda _: chat(client), range(8))}
        search.requests.clear()
        last = chat(client).status_code

    assert (statuses, last, len(search.requests)) == ({200}, 200, 1)


def test_changed_chunk_field_name_is_detected_again(home: Path) -> None:
    statuses = []
    with theirs(home, "metadata") as (search, _, client):
        for key in ("metadata", "chunk_id", "metadata"):
            search.docs, search.selects = passages(key), ({*BASE, key}, {"id"})
            statuses.append(chat(client).status_code)

    assert statuses == [200] * 3


NUMBERS: list[tuple[dict[str, Any], str]] = [
    ({"metadata": '{"chunk_id": "7"}'}, "7"),
    ({"metadata": '{"chunk_id": 7}'}, "7"),
    ({"metadata": '{"chunk_id": null}'}, "p"),
    ({"metadata": '{"chunk_id": false}'}, "p"),
    ({"metadata": '{"chunk_id": {"a": 1}}'}, "p"),
    ({"metadata": '{"page": 7}'}, "p"),
    ({"metadata": "[7]"}, "p"),
    ({"metadata": "no JSON"}, "p"),
    ({"metadata": None}, "p"),
    ({"metadata": ""}, "p"),
    ({}, "p"),
]


@pytest.mark.parametrize(("document", "number"), NUMBERS)
def test_passage_without_a_number_is_cited_by_id(document: dict[str, Any], number: str) -> None:
    fields = IndexFields(sourcepage="filepath", sourcefile="filepath", chunk="metadata")
    source = fields.to_source({"id": "p", "filepath": "f.pdf", **document})

    assert (source.sourcepage, source.sourcefile) == (f"f.pdf#{number}", "f.pdf")


PORTAL = {
    "id": "chunk_id",
    "content": "chunk",
    "sourcepage": "title",
    "sourcefile": "title",
    "embedding": "text_vector",
    "category": "",
    "oids": "",
    "groups": "",
    "image": "",
}


@pytest.mark.parametrize(
    ("title", "marker"),
    [
        ("plan.pdf#page=2", "plan.pdf#page=2"),
        (None, "c1"),
        ("", "c1"),
        ("a [new] plan\nother.md: lies", "a %5Bnew%5D plan%0Aother.md: lies"),
    ],
)
def test_passage_of_any_index_can_be_cited(title: str | None, marker: str) -> None:
    source = IndexFields(**PORTAL).to_source({"chunk_id": "c1", "chunk": "text", "title": title})

    assert source.sourcepage == marker
    assert source.sourcefile == (title or "c1")


def test_web_pages_with_the_same_title_have_their_own_citations() -> None:
    fields = IndexFields(
        sourcepage="filepath", sourcefile="filepath", title="title", chunk="chunk_id"
    )
    hits = [{"id": id, "title": "Home", "chunk_id": "0"} for id in ("a", "b")]
    sources = [fields.to_source(hit) for hit in hits]

    assert [source.sourcepage for source in sources] == ["Home#a", "Home#b"]
    assert fields.to_source({"id": "c"}).sourcepage == "c#c"


def test_field_names_of_the_settings_are_used() -> None:
    assert set(get_args(FieldName)) == {field.name for field in dataclasses.fields(IndexFields)}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://site.example/a", "https://site.example/a"),
        ("HTTP://site.example/a", "HTTP://site.example/a"),
        ("javascript:alert(1)", ""),
        ("plans/a.pdf", ""),
        (None, ""),
    ],
)
def test_url_must_be_http(url: str | None, expected: str) -> None:
    assert IndexFields(url="url").to_source({"id": "p", "url": url}).url == expected
    assert IndexFields().to_source({"id": "p", "url": url}).url is None


def test_file_that_the_index_cannot_filter_by_is_a_404(home: Path) -> None:
    folder = home / "portal"
    folder.mkdir()
    (folder / "a.md").write_text("text")
    fields = {name: value or None for name, value in PORTAL.items()}
    settings = {"AZURE_SEARCH_FIELDS": json.dumps(fields), "DOCUMENTS_PATH": str(folder)}
    with app(home, **settings) as (search, _, client):
        search.plan += [error_response(400, code="InvalidRequest")]  # title is not filterable
        status = client.get("/content/a.md").status_code

    assert (status, len(search.requests)) == (404, 1)


def test_filter_narrows_and_an_invalid_one_is_rejected(home: Path) -> None:
    with theirs(home, ALLOW_CLIENT_FILTERS="true") as (search, _, client):
        where = {"endpoint": search.url, "index_name": "docs"}

        def narrowed(condition: str) -> httpx.Response:
            parameters = {**where, "filter": condition}
            sources = [{"type": "azure_search", "parameters": parameters}]
            return chat(client, data_sources=sources)

        right = narrowed("filepath eq 'plans/a[1].pdf'").json()
        condition = search.requests[-1].body["filter"]
        wrong = narrowed("nothing eq 'x'")
        after = chat(client)

    citations = right["choices"][0]["message"]["context"]["citations"]
    assert [each["chunk_id"] for each in citations] == ["p0", "p1"]
    assert condition == "(filepath eq 'plans/a[1].pdf')"
    assert wrong.status_code == 400
    assert after.status_code == 200


@pytest.mark.parametrize("override", ["include_category", "exclude_category"])
def test_missing_features_are_noted(home: Path, override: str) -> None:
    with theirs(home) as (search, _, client):
        body = {"messages": QUESTION, "context": {"overrides": {override: "plans"}}}
        thoughts = client.post("/chat", json=body).json()["context"]["thoughts"]

    assert thoughts[4]["description"] == [f"{override} was left out: this index has no categories."]
    assert override not in thoughts[1]["props"]
    assert "filter" not in search.requests[-1].body


def test_index_without_vectors_is_searched_by_text(home: Path) -> None:
    fields = json.dumps({"embedding": None})
    more = {"AZURE_SEARCH_FIELDS": fields, "OPENAI_EMBEDDING_MODEL": "e", "CHAT_MODEL": "openai"}
    with app(home, **more) as (search, _, client):
        assert chat(client).status_code == 200

    assert "vectorQueries" not in search.requests[-1].body


def test_mismatched_index_is_queried_once(home: Path) -> None:
    portal = {name: value or None for name, value in PORTAL.items()}
    with app(home, AZURE_SEARCH_FIELDS=json.dumps(portal)) as (search, _, client):
        search.requests.clear()
        status = chat(client).status_code

    assert (status, len(search.requests)) == (503, 1)
    assert search.requests[0].body["select"] == "chunk_id,chunk,title"


def test_link_to_a_file_of_a_foreign_index_is_encoded_once() -> None:
    fields = IndexFields(**PORTAL | {"chunk": "chunk_id"})
    hit = {"chunk_id": "a1", "chunk": "Text.", "title": "Report: 100%.pdf"}
    retriever = FakeRetriever([fields.to_source(hit)])
    body = {"messages": QUESTION}
    got = ask(call(ROUTE, body), local_service(make_rag(FakeModel(), retriever))).json
    (citation,) = got["choices"][0]["message"]["context"]["citations"]

    assert citation["url"] == "/content/Report%3A%20100%25.pdf#a1"


SEARCH = {"AZURE_SEARCH_ENDPOINT": "https://s.search.windows.net", "AZURE_SEARCH_INDEX": "docs"}
OPEN = [
    {**PRESET, **SEARCH},
    {**SEARCH, "AZURE_SEARCH_FIELDS": '{"oids": null, "groups": null}'},
]


@pytest.mark.parametrize("settings", OPEN)
def test_index_without_access_control_must_be_declared_public(settings: dict[str, str]) -> None:
    settings = settings | FAKE_MODEL
    signed_in = {**settings, **SIGN_IN}
    (problem,) = start(signed_in).problems

    assert "AZURE_SEARCH_INDEX_PUBLIC" in problem
    assert not start(settings).problems
    assert not start({**signed_in, "AZURE_SEARCH_INDEX_PUBLIC": "true"}).problems
    with pytest.raises(SettingsError):
        build(read_settings(signed_in))


@pytest.mark.parametrize("there", ["oids", "groups"])
def test_index_with_one_access_field_is_filtered_by_it(home: Path, there: str) -> None:
    fields = {"oids": None, "groups": None, "category": None} | {there: there}
    settings = {
        "AZURE_SEARCH_FIELDS": json.dumps(fields),
        "CHAT_MODEL": "openai",
        **SIGN_IN,
        "CHAT_API_KEY": CHAT_KEY,
    }
    with app(home, **settings) as (search, _, client):
        chat_as = {"api-key": CHAT_KEY}
        client.post(ROUTE, json={"messages": QUESTION}, headers=chat_as)
        anna = signed("anna", ["g1"])
        client.post(ROUTE, json={"messages": QUESTION}, headers=anna)

    public = f"((not {there}/any()))"
    own = {
        "oids": " or oids/any(o: o eq 'anna')",
        "groups": " or groups/any(g: search.in(g, 'g1', ','))",
    }[there]
    assert [request.body["filter"] for request in search.requests] == [
        public,
        f"{public.removesuffix(')')}{own})",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("on-your-date", "must be JSON, or on-your-data"),
        ('{"content": null}', "must have a name for content"),
        ('{"title": ""}', "must have a name for title"),
        ('{"pages": "x"}', "must be one of"),
        ('["content"]', "must be an object"),
        ('{"content": 7}', "must be a string"),
    ],
)
def test_invalid_field_names_are_rejected(fields: str, message: str) -> None:
    (problem,) = start({**SEARCH, "AZURE_SEARCH_FIELDS": fields}).problems

    assert problem.startswith(f"AZURE_SEARCH_FIELDS {message}")
