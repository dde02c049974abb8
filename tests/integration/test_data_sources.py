"""`data_sources`, as "Azure OpenAI On Your Data" had them: what search and model are asked for,
what comes back, and that none of them reaches further than the deployment allows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.bootstrap.build import build
from shared.domain.errors import BadRequest
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.protocols.exchange import App
from shared.protocols.openai.data_sources import SearchScope, check_filter
from shared.settings import read_settings
from tests.support.calls import CHAT_KEY, BufferedReply, ask, call, local_service
from tests.support.fake_search import FakeSearch
from tests.support.fakes import FakeModel, FakeRetriever, make_rag
from tests.support.fuzz import FUZZ
from tests.support.prompts import APP_PROMPTS
from tests.support.search_app import PUBLIC, SELECT, app, home, signed
from tests.support.servers import SAMPLES, SIGN_IN
from tests.support.upstream import Upstream, answer_events, error_response, stream_response

__all__ = ["home"]  # a fixture

Parts = tuple[FakeSearch, Upstream, httpx.Client]
ROUTE = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "deductible"}]
SECRETS = ("s3cret-search", "s3cret-model", "s3cret-user")


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[Parts]:
    """An app with a ranker, vectors, and filters of its clients."""
    more = {
        "CHAT_MODEL": "openai",
        "OPENAI_EMBEDDING_MODEL": "e",
        "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "ranking",
        "ALLOW_CLIENT_FILTERS": "true",
        "ALLOW_CLIENT_PROMPTS": "true",
        **SIGN_IN,
        "CHAT_API_KEY": CHAT_KEY,
    }
    with app(home, **more) as (search, model, client):
        client.headers["api-key"] = CHAT_KEY
        yield search, model, client


@pytest.fixture
def parts(running: Parts) -> Parts:
    search, model, _ = running
    for server in (search, model):
        server.requests.clear()
        server.plan.clear()
    search.reranks.clear()
    return running


def source(search: FakeSearch, **parameters: Any) -> dict[str, Any]:
    where = {"endpoint": search.url, "index_name": "docs"}
    return {"type": "azure_search", "parameters": {**where, **parameters}}


def chat(parts: Parts, **parameters: Any) -> httpx.Response:
    search, _, client = parts
    body = {"messages": QUESTION, "data_sources": [source(search, **parameters)]}
    return client.post(ROUTE, json=body)


def context(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["context"]


VECTORS = [{"kind": "vector", "k": 50, "fields": "embedding", "vector": [0.25, 0.5]}]
BASE = {
    "search": "deductible",
    "filter": PUBLIC,
    "select": SELECT,
    "top": 5,
    "vectorQueries": VECTORS,
}
TEXT = {key: it for key, it in BASE.items() if key != "vectorQueries"}
ALONE = {key: it for key, it in BASE.items() if key != "search"}
RANKED = {
    "queryType": "semantic",
    "semanticConfiguration": "ranking",
    "semanticQuery": "deductible",
    "semanticErrorHandling": "partial",
}
MAPPING = {
    "content_fields": ["text"],
    "title_field": None,
    "url_field": None,
    "filepath_field": "path",
    "vector_fields": [],
}
READ_PAST = [
    {"authentication": {"type": "api_key", "key": SECRETS[0]}},
    {"authentication": {"type": "system_assigned_managed_identity"}},
    {"authentication": None},
    {"embedding_dependency": {"type": "deployment_name", "deployment_name": "other"}},
    {
        "embedding_dependency": {
            "type": "endpoint",
            "endpoint": "https://evil.example",
            "authentication": {"type": "api_key", "key": SECRETS[1]},
        }
    },
    {"semantic_configuration": ""},
    {"semantic_configuration": "another"},
    {"user_security_context": {"end_user_id": SECRETS[2]}},
    {"fields_mapping": MAPPING},
    {"max_search_queries": 3, "allow_partial_result": False},
    {"unheard_of": [1, 2]},
    {name: None for name in ("query_type", "top_n_documents", "strictness", "in_scope", "filter")},
    {name: None for name in ("role_information", "include_contexts", "fields_mapping")},
    {"filter": " "},
    {"strictness": 5},  # without a ranker there is no score for it
    {"in_scope": True},
]
SEARCHES: list[tuple[Any, Any]] = [
    ({}, BASE),
    *((parameters, BASE) for parameters in READ_PAST),
    ({"query_type": "simple"}, TEXT),
    ({"query_type": "semantic"}, {**TEXT, **RANKED}),
    ({"query_type": "vector"}, ALONE),
    ({"query_type": "vector_simple_hybrid"}, BASE),
    ({"query_type": "vector_semantic_hybrid"}, {**BASE, **RANKED}),
    ({"top_n_documents": 7}, {**BASE, "top": 7}),
    ({"top_n_documents": 7.0}, {**BASE, "top": 7}),
    (
        {"filter": "category eq 'a''b' or (category eq 'other')"},
        {**BASE, "filter": f"{PUBLIC} and (category eq 'a''b' or (category eq 'other'))"},
    ),
    (
        {"filter": "search.in(category, 'other, x')"},
        {**BASE, "filter": f"{PUBLIC} and (search.in(category, 'other, x'))"},
    ),
]


@pytest.mark.parametrize(("parameters", "body"), SEARCHES)
def test_search_request(parts: Parts, parameters: dict[str, Any], body: dict[str, Any]) -> None:
    response = chat(parts, **parameters)
    contexts = context(response)

    assert [request.body for request in parts[0].requests] == [body]
    assert contexts.keys() == {"citations", "intent"}
    assert "x-chat-notice" not in response.headers


def test_filter_narrows_the_results(parts: Parts) -> None:
    everything = context(chat(parts, top_n_documents=50))["citations"]
    some = context(chat(parts, filter="category eq 'other'"))["citations"]

    assert {"public", "plan", "other"} == {each["chunk_id"] for each in everything}
    assert [each["chunk_id"] for each in some] == ["other"]


@pytest.mark.parametrize(
    ("strictness", "cited"),
    [(1, "public plan other"), (None, "public plan"), (4, "public"), (5, "")],
)
def test_strictness_is_a_minimum_reranker_score(
    parts: Parts, strictness: int | None, cited: str
) -> None:
    parts[0].reranks |= {"public": 2.2, "plan": 1.5, "other": 1.4}
    include = ["citations", "intent", "all_retrieved_documents"]
    ranked = {"query_type": "vector_semantic_hybrid", "include_contexts": include}
    contexts = context(chat(parts, **ranked, strictness=strictness))

    assert [each["chunk_id"] for each in contexts["citations"]] == cited.split()
    retrieved = contexts["all_retrieved_documents"]
    reasons = {each["chunk_id"]: each.get("filter_reason") for each in retrieved}
    everything = ["public", "plan", "other"]
    assert reasons == {name: None if name in cited.split() else "rerank" for name in everything}
    assert retrieved[0] == {
        "content": "The deductible in public.",
        "title": "public.md",
        "url": "/content/public.md",
        "filepath": "public.md",
        "chunk_id": "public",
        "search_queries": ["deductible"],
        "data_source_index": 0,
        "original_search_score": 1.5,
        "rerank_score": 2.2,
        **({} if cited else {"filter_reason": "rerank"}),
    }


def test_missing_ranker_is_noted_in_a_header(home: Path) -> None:
    settings = {
        "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "ranking",
        "ALLOW_CLIENT_FILTERS": "true",
    }
    with app(home, **settings) as running:
        running[0].ranker = False
        response = chat(running, query_type="semantic", strictness=5)

        refused = chat(running, query_type="semantic", filter="nothing eq 'x'")
        running[0].ranker = True

    assert len(context(response)["citations"]) == 3
    assert "semantic_ranker was left out" in response.headers["x-chat-notice"]
    assert refused.json()["error"]["param"] == "data_sources[0].parameters.filter"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", [ROUTE, "/openai/deployments/gpt-4o/chat/completions"])
def test_unknown_model_is_replaced_by_the_default_one(
    parts: Parts, route: str, stream: bool
) -> None:
    search, _, client = parts
    body = {"messages": QUESTION, "model": "gpt-4o", "stream": stream}
    response = client.post(route, json={**body, "data_sources": [source(search)]})
    without = [client.post(route, json=each) for each in (body, {**body, "data_sources": []})]
    first = response.text.partition("\n")[0].removeprefix("data: ")

    assert response.status_code == 200
    assert json.loads(first)["model"] == "m"
    assert "The model gpt-4o was left out" in response.headers["x-chat-notice"]
    assert [each.status_code for each in without] == [404, 404]


@pytest.mark.parametrize("stream", [False, True])
def test_known_model_is_not_replaced(parts: Parts, stream: bool) -> None:
    search, _, client = parts
    body = {"messages": QUESTION, "model": "m", "stream": stream}
    response = client.post(ROUTE, json={**body, "data_sources": [source(search)]})

    assert response.status_code == 200
    assert "x-chat-notice" not in response.headers


@pytest.mark.parametrize(
    "include", [[], ["citations"], ["intent"], ["all_retrieved_documents", "intent"]]
)
@pytest.mark.parametrize("stream", [False, True])
def test_include_contexts_selects_the_contexts(
    parts: Parts, include: list[str], stream: bool
) -> None:
    search, _, client = parts
    sources = [source(search, include_contexts=include)]
    body = {"messages": QUESTION, "data_sources": sources, "stream": stream}
    response = client.post(ROUTE, json=body)
    if stream:
        first = json.loads(response.text.split("\n\n")[0].removeprefix("data: "))
        contexts = first["choices"][0]["delta"]["context"]
    else:
        contexts = context(response)

    assert contexts.keys() == set(include)


def test_in_scope_selects_the_instructions(parts: Parts) -> None:
    systems = []
    for in_scope in (True, False):
        chat(parts, in_scope=in_scope)
        systems.append(parts[1].requests[-1].body["messages"][0]["content"])

    assert systems[0].startswith(APP_PROMPTS.answer)
    assert systems[1].startswith(APP_PROMPTS.beyond)
    assert all("Sources:\npublic.md: The deductible in public." in system for system in systems)


def test_role_information_is_sent_if_client_prompts_are_allowed(parts: Parts) -> None:
    chat(parts, role_information="Be a pirate.")
    first, second, third = parts[1].requests[-1].body["messages"]

    assert first["role"] == "system"
    assert second == {"role": "system", "content": "Be a pirate."}
    assert third == QUESTION[0]


def configured(
    model: FakeModel | None = None, retriever: FakeRetriever | None = None, **more: Any
) -> App:
    """A service over fakes, whose index is told by an address."""
    searched = SearchScope(
        "https://mine.search.windows.net", "docs", private=("oids", "groups"), **more
    )
    return local_service(make_rag(model, retriever), configs=(searched,))


def posted(service: App, /, stream: bool = False, **parameters: Any) -> BufferedReply:
    where = {"endpoint": "https://mine.search.windows.net", "index_name": "docs"}
    data_source = {"type": "azure_search", "parameters": {**where, **parameters}}
    body = {"messages": QUESTION, "data_sources": [data_source], "stream": stream}
    return ask(call(ROUTE, body), service)


@pytest.mark.parametrize("stream", [False, True])
def test_role_information_is_otherwise_omitted_with_a_header(stream: bool) -> None:
    model = FakeModel()
    got = posted(configured(model), stream, role_information="Be a pirate.")

    assert got.status == 200
    assert "role_information" in got.headers["x-chat-notice"]
    assert "pirate" not in str(model.calls)


def test_blank_role_information_is_ignored() -> None:
    got = posted(configured(), role_information="  ")

    assert got.status == 200
    assert "x-chat-notice" not in got.headers


def test_intent_is_not_escaped() -> None:
    messages = [{"role": "user", "content": "¿Qué es 漢字?"}]
    got = ask(call(ROUTE, {"messages": messages}), local_service(make_rag()))
    contexts = got.json["choices"][0]["message"]["context"]

    assert contexts["intent"] == '["¿Qué es 漢字?"]'


@pytest.mark.parametrize("key", ["filter", "endpoint", "data_source"])
def test_unknown_key_is_named(key: str) -> None:
    body = json.dumps({"messages": QUESTION, key: 1}).replace(": 1}", ": 1e400}")
    got = ask(call(ROUTE, body.encode()), configured())

    assert (got.status, got.json["error"]["param"]) == (400, key)


def test_strict_search_without_scores_omits_nothing() -> None:
    assert posted(configured(), query_type="semantic", strictness=5).status == 200


def test_passage_beyond_the_prompt_is_retrieved_but_not_cited() -> None:
    model = FakeModel(max_prompt_tokens=24)
    include = ["citations", "all_retrieved_documents"]
    got = posted(configured(model), include_contexts=include).json
    contexts = got["choices"][0]["message"]["context"]
    cited, retrieved = contexts["citations"], contexts["all_retrieved_documents"]

    assert 0 < len(cited) < len(retrieved) == 2
    assert [each.get("filter_reason") for each in retrieved] == [None, "rerank"]


WRONG: list[tuple[Any, str]] = [
    ({"type": "azure_search"}, "data_sources[0].parameters"),
    ({"type": "elasticsearch", "parameters": {}}, "data_sources[0].type"),
    ({"parameters": {}}, "data_sources[0].type"),
    ("azure_search", "data_sources[0]"),
    ({"type": "azure_search", "parameters": {}}, "data_sources[0].parameters.endpoint"),
]
WRONG_PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"endpoint": None}, "endpoint"),
    ({"endpoint": 7}, "endpoint"),
    ({"index_name": None}, "index_name"),
    ({"query_type": "fuzzy"}, "query_type"),
    ({"top_n_documents": 0}, "top_n_documents"),
    ({"top_n_documents": 51}, "top_n_documents"),
    ({"top_n_documents": "5"}, "top_n_documents"),
    ({"strictness": 0}, "strictness"),
    ({"strictness": 6}, "strictness"),
    ({"in_scope": "yes"}, "in_scope"),
    ({"role_information": ["x"]}, "role_information"),
    ({"filter": {"a": 1}}, "filter"),
    ({"filter": "()" * 20_000}, "filter"),
    ({"include_contexts": ["everything"]}, "include_contexts[0]"),
    ({"include_contexts": "citations"}, "include_contexts"),
    ({"include_contexts": ["intent"] * 11}, "include_contexts"),
]


@pytest.mark.parametrize(
    ("sources", "param"),
    [
        *(([wrong], param) for wrong, param in WRONG),
        ({"type": "azure_search"}, "data_sources"),
        ([{"type": "azure_search"}] * 2, "data_sources"),
    ],
)
def test_invalid_data_source_is_named_by_path(sources: Any, param: str) -> None:
    got = ask(call(ROUTE, {"messages": QUESTION, "data_sources": sources}), configured())

    assert (got.status, got.json["error"]["param"]) == (400, param)


@pytest.mark.parametrize(("parameters", "name"), WRONG_PARAMETERS)
def test_invalid_parameter_is_named_by_path(parameters: dict[str, Any], name: str) -> None:
    got = posted(configured(), **parameters)

    assert got.status == 400
    assert got.json["error"]["param"] == f"data_sources[0].parameters.{name}"
    assert got.json["error"]["message"].startswith(f"data_sources[0].parameters.{name}: ")


@pytest.mark.parametrize("empty", [[], None])
def test_request_without_data_source_uses_the_deployment(empty: Any) -> None:
    retriever = FakeRetriever()
    body = {"messages": QUESTION, "data_sources": empty}
    got = ask(call(ROUTE, body), local_service(make_rag(FakeModel(), retriever)))

    assert got.status == 200
    ((_, _, used),) = retriever.calls
    assert (used.top, used.retrieval_mode, used.minimum_reranker_score) == (3, None, None)


def test_missing_search_service_names_the_setting() -> None:
    got = posted(local_service(make_rag()))

    assert (got.status, got.json["error"]["param"]) == (400, "data_sources")
    assert "AZURE_SEARCH_ENDPOINT" in got.json["error"]["message"]


HERE = [
    "https://mine.search.windows.net",
    "https://mine.search.windows.net/",
    "https://mine.search.windows.net:443",
    "https://MINE.Search.Windows.NET:443/",
    "https://mine.search.windows.net/indexes",
    " https://mine.search.windows.net ",
]
ELSEWHERE = [
    "https://evil.example",
    "https://mine.search.windows.net.evil.example",
    "https://evil.example/mine.search.windows.net",
    "https://evil.example?mine.search.windows.net",
    "https://evil.example#mine.search.windows.net",
    "https://mine.search.windows.net:8443",
    "http://mine.search.windows.net",
    "https://mine.search.windows.net@evil.example",
    "https://key:s3cret@mine.search.windows.net",
    "https://@mine.search.windows.net",
    "https://mine\uff0esearch.windows.net",
    "https://m\u0456ne.search.windows.net",
    "https://mine.search.windows.net.",
    "https://mine.search.windows.net\\@evil.example",
    "https://mine.search.windows.net\nevil.example",
    "https://[::1",
    "https://mine.search.windows.net:port",
    "mine.search.windows.net",
    "//mine.search.windows.net:443",
    "ftp://mine.search.windows.net:443",
    "file:///etc/passwd",
    "https://",
    "",
]


@pytest.mark.parametrize("endpoint", HERE)
def test_configured_endpoint_is_accepted_in_every_spelling(endpoint: str) -> None:
    assert posted(configured(), endpoint=endpoint).status == 200


@pytest.mark.parametrize("endpoint", ELSEWHERE)
def test_other_endpoint_is_rejected_before_any_request(endpoint: str) -> None:
    model, retriever = FakeModel(), FakeRetriever()
    service = configured(model, retriever)
    got = posted(service, endpoint=endpoint)

    assert got.status == 400
    assert got.json["error"]["param"] == "data_sources[0].parameters.endpoint"
    assert not retriever.calls
    assert not model.calls
    assert "s3cret" not in got.data.decode()


@pytest.mark.parametrize("index", ["other", "DOCS", "docs ", "docs')/docs?x=", "*", ""])
def test_other_index_is_rejected(index: str) -> None:
    got = posted(configured(), index_name=index)

    assert got.status == 400
    assert "AZURE_SEARCH_INDEX" in got.json["error"]["message"]


def test_disallowed_filter_is_rejected() -> None:
    got = posted(configured(), filter="category eq 'x'")

    assert got.status == 400
    assert got.json["error"]["param"] == "data_sources[0].parameters.filter"
    assert "ALLOW_CLIENT_FILTERS" in got.json["error"]["message"]


WIDENING = [
    "x) or (true",
    "category eq 'x') or (category ne 'x'",
    ") or (",
    "(category eq 'x'",
    "category eq 'x",
    "category eq 'x''",
    "category eq '''",
    "category eq 'x' or ')' eq '('')",
    "category eq 'x' -- and hidden",
    "category eq 'x' // and hidden",
    "category eq 'x' /* ) or (true */",
    "category eq 'x' # ) or (true",
    "category eq 'x'; drop",
    'category eq "x"',
    "category eq `x`",
    "category eq \u2018x\u2019",
    "category eq \uff07x\uff07",
    "category eq 'x'\uff09 or \uff08true",
    "category eq 'x'\u207e or \u207dtrue",
    "category eq 'x' %29 or %28true",
    "category eq 'x' \\) or \\(true",
    "category eq 'x'\x00) or (true",
    "c\u0430tegory eq 'x'",
    "oids/any(o: o eq 'anna')",
    "OIDS/any(o: o eq 'anna')",
    "groups/any()",
    "search.ismatch('anna', 'oids')",
    "search.ismatchscoring('anna', 'x,groups')",
    "search.isMatch('anna', 'oids')",
    "duration'P1D'oids/any()",
    "search.ismatch('o\\ids:anna', 'content', 'full', 'any')",
    "search.ismatch('\\u006fids:anna', 'content', 'full', 'any')",
]


@pytest.mark.parametrize("condition", WIDENING)
def test_widening_filter_is_rejected(condition: str) -> None:
    retriever = FakeRetriever()
    service = configured(retriever=retriever, filters=True)
    got = posted(service, filter=condition)

    assert got.status == 400
    assert got.json["error"]["param"] == "data_sources[0].parameters.filter"
    assert not retriever.calls


NARROWING = [
    "category eq 'O''Brien (the elder)'",
    "category eq ')' or category eq '('",
    "category eq '\u4ea7\u54c1\uff08\u65b0\uff09'",
    "search.in(category, 'a|b', '|') and not (rating lt -1.5)",
    "tags/any(t: t eq 'x') and updated ge 2024-01-01T00:00:00+01:00",
    "geo.distance(place, geography'POINT(-122.1 47.6)') le 10",
    "search.ismatch('anna', 'content')",
    "category ne null\nand size gt 3",
]


@pytest.mark.parametrize("private", ["acl/oids", "OIDS"])
def test_filter_cannot_name_a_private_field(private: str) -> None:
    with pytest.raises(BadRequest):
        check_filter("acl/oids/any(o: o eq 'anna')", (private,))


@pytest.mark.parametrize("condition", NARROWING)
def test_valid_odata_filter_is_sent(condition: str) -> None:
    retriever = FakeRetriever()
    service = configured(retriever=retriever, filters=True)

    assert posted(service, filter=condition).status == 200
    ((_, _, used),) = retriever.calls
    assert used.filter == condition


def is_one_term(text: str) -> bool:
    """Whether the parenthesis that it begins with is closed by its last character, and no sooner:
    read character by character."""
    depth, quoted = 0, False
    for place, character in enumerate(text):
        quoted ^= character == "'"
        if not quoted:
            depth += (character == "(") - (character == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


@FUZZ
@given(st.lists(st.sampled_from([*"()'aOo -/*", "''", " or ", "true", "\uff09"])).map("".join))
def test_accepted_filter_stays_within_its_parentheses(condition: str) -> None:
    try:
        accepted = check_filter(condition)
    except BadRequest:
        return
    assert is_one_term(f"({accepted})")
    assert accepted == condition


def test_filter_rejected_by_the_service_is_a_400(parts: Parts) -> None:
    response = chat(parts, filter="no_such_field eq 'x'")
    error = response.json()["error"]

    assert response.status_code == 400
    assert error["param"] == "data_sources[0].parameters.filter"
    assert [request.body["top"] for request in parts[0].requests] == [5, 1]


def test_index_mismatch_is_not_blamed_on_the_filter(parts: Parts) -> None:
    parts[0].plan += [error_response(400, code="InvalidRequest")] * 2
    response = chat(parts, filter="category eq 'x'")

    assert response.status_code == 503


def test_other_protocols_ignore_filters(parts: Parts) -> None:
    search, _, client = parts
    overrides = {"filter": "category eq 'other'"}
    body = {"messages": QUESTION, "context": {"overrides": overrides}}
    response = client.post("/chat", json=body, headers=signed("oid-a", ["g1"]))

    assert response.status_code == 200
    assert "other" not in search.requests[0].body["filter"]


def test_embedded_index_rejects_a_filter() -> None:
    service = build(read_settings(SAMPLES))
    assert service.rag is not None
    retriever = service.rag.retriever
    narrowed = Overrides().model_copy(update={"filter": "category eq 'x'"})

    assert retriever.name == "embedded"
    with pytest.raises(BadRequest):
        asyncio.run(retriever.search(User(), "dental", narrowed))


EVERYTHING = {
    "authentication": {"type": "api_key", "key": SECRETS[0]},
    "embedding_dependency": {
        "type": "endpoint",
        "endpoint": "https://evil.example",
        "authentication": {"type": "api_key", "key": SECRETS[1]},
    },
    "semantic_configuration": "",
    "user_security_context": {"application_name": "a", "end_user_id": SECRETS[2]},
    "query_type": "vector_semantic_hybrid",
    "top_n_documents": 4,
    "strictness": 2,
    "in_scope": False,
    "role_information": "Be a pirate.",
    "filter": "category eq 'other'",
    "fields_mapping": MAPPING,
    "max_search_queries": 2,
    "allow_partial_result": True,
    "include_contexts": ["citations", "intent", "all_retrieved_documents"],
}


def test_request_with_every_parameter(parts: Parts) -> None:
    search, model, _ = parts
    contexts = context(chat(parts, **EVERYTHING))

    body = {**BASE, **RANKED, "top": 4, "filter": f"{PUBLIC} and (category eq 'other')"}
    assert [each.body for each in search.requests] == [body]
    messages = model.requests[-1].body["messages"]
    assert messages[0]["content"].startswith(APP_PROMPTS.beyond)
    assert messages[1]["content"] == "Be a pirate."
    assert [each["chunk_id"] for each in contexts["citations"]] == ["other"]
    assert contexts.keys() == {"citations", "intent", "all_retrieved_documents"}


def test_credential_of_a_request_is_not_forwarded(home: Path) -> None:
    settings = {"CHAT_MODEL": "openai", "ALLOW_CLIENT_PROMPTS": "true"}
    with app(home, **settings) as (search, model, client):
        answers = []
        for wrong in ({}, {"index_name": "other"}, {"strictness": 9}, {"filter": "x"}):
            secret = {**EVERYTHING, "filter": None}
            data_source = source(search, **{**secret, **wrong})
            for stream in (False, True):
                body = {"messages": QUESTION, "data_sources": [data_source], "stream": stream}
                answers.append(client.post(ROUTE, json=body))
        requests = [
            (request.path, request.headers, request.body)
            for request in (*search.requests, *model.requests)
        ]
        log = "".join(path.read_text("utf-8", "replace") for path in home.glob("*.log"))

    assert [got.status_code for got in answers] == [200, 200, *[400] * 6]
    for secret_word in SECRETS:
        assert secret_word not in str(requests)
        assert secret_word not in log
        assert all(secret_word not in got.text + str(got.headers) for got in answers)


def sample_app(endpoint: str) -> dict[str, Any]:
    """What the sample app of On Your Data sends, typed by hand: its defaults, nothing filled in."""
    mapping: dict[str, Any] = {
        "content_fields": [],
        "title_field": None,
        "url_field": None,
        "filepath_field": None,
        "vector_fields": [],
    }
    parameters = {
        "endpoint": endpoint,
        "index_name": "docs",
        "authentication": {"type": "api_key", "key": SECRETS[0]},
        "allow_partial_result": False,
        "fields_mapping": mapping,
        "filter": None,
        "in_scope": True,
        "include_contexts": ["citations", "intent"],
        "query_type": "simple",
        "role_information": "You are an AI assistant that helps people find information.",
        "semantic_configuration": "",
        "strictness": 3,
        "top_n_documents": 5,
        "embedding_dependency": None,
    }
    return {
        "messages": [{"role": "user", "content": "deductible"}],
        "temperature": 0,
        "max_tokens": 1000,
        "top_p": 0,
        "stop": None,
        "stream": True,
        "model": "m",
        "user": "anna",
        "extra_body": {
            "data_sources": [{"type": "azure_search", "parameters": parameters}],
            "user_security_context": {"application_name": "app", "end_user_id": SECRETS[2]},
        },
    }


@pytest.mark.parametrize("name", ["m", "o3-mini"])
@pytest.mark.parametrize("header", [{}, {"Authorization": f"Bearer {CHAT_KEY}"}])
def test_on_your_data_sample_app(home: Path, name: str, header: dict[str, str]) -> None:
    settings = {"CHAT_MODEL": "openai", "OPENAI_CHAT_MODEL": name, "CHAT_API_KEY": CHAT_KEY}
    with app(home, **settings) as (search, model, client):
        model.plan.append(stream_response(answer_events("It is in [pl", "an.md] and [plan.md].")))
        with openai.AzureOpenAI(
            azure_endpoint=str(client.base_url).rstrip("/"),
            api_version="2024-05-01-preview",
            api_key="no-key" if header else CHAT_KEY,
            default_headers=header,
            max_retries=0,
            http_client=httpx2.Client(trust_env=False),
        ) as azure:
            request = sample_app(search.url) | {"model": name}
            raw = azure.chat.completions.with_raw_response.create(**request)
            chunks = list(raw.parse())
        body = model.requests[0].body

    deltas = [chunk.choices[0].delta for chunk in chunks]
    contexts = deltas[0].context
    assert [each["filepath"] for each in contexts["citations"]] == [
        "public.md",
        "plan.md",
        "other.md",
    ]
    assert "".join(d.content or "" for d in deltas) == "It is in [doc2] and [doc2]."
    assert chunks[0].model == name
    reasoning = name == "o3-mini"
    assert ("temperature" in body, "top_p" in body) == (not reasoning, not reasoning)
    assert body["max_completion_tokens" if reasoning else "max_tokens"] == 1000
    assert "stop" not in body
    assert "data_sources" not in body
    notice = raw.headers["x-chat-notice"]
    assert "role_information" in notice
    assert ("top_p was left out" in notice) == reasoning
    assert search.requests[0].body == TEXT


def test_second_turn_of_the_sample_app(parts: Parts) -> None:
    search, model, client = parts
    content = json.dumps({"citations": [{"content": "bygone", "filepath": "x.md"}], "intent": "[]"})
    messages = [
        {"role": "user", "content": "Is there a deductible?"},
        {"role": "tool", "content": content},
        {"role": "tool", "content": content, "tool_call_id": ""},
        {"role": "assistant", "content": "Yes [doc1].", "context": {"citations": []}},
        {"role": "user", "content": "deductible"},
    ]
    body = {"messages": messages, "data_sources": [source(search)], "stream": True}
    response = client.post(ROUTE, json=body)

    assert response.status_code == 200
    assert response.text.endswith("data: [DONE]\n\n")
    assert "tool_call_id" in response.headers["x-chat-notice"]
    messages_sent = model.requests[-1].body["messages"]
    assert [message["role"] for message in messages_sent] == ["system", "user", "assistant", "user"]
    assert "bygone" not in str(messages_sent)


def test_citation_numbers_of_earlier_answers_are_removed() -> None:
    model = FakeModel()
    parts_of_it = [{"type": "text", "text": "See [doc12] and [x]."}]
    messages = [
        {"role": "user", "content": "What is [doc1]?"},
        {"role": "assistant", "content": "Yes [doc2][doc1]."},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": parts_of_it},
        *QUESTION,
    ]
    ask(call(ROUTE, {"messages": messages}), local_service(make_rag(model)))
    texts = [(each.content, (each.raw or {}).get("content")) for each in model.calls[-1].messages]

    assert texts[1:4:2] == [("What is [doc1]?", "What is [doc1]?"), ("And?", "And?")]
    assert texts[2] == ("Yes.", "Yes.")
    assert texts[4] == ("See and [x].", [{"type": "text", "text": "See and [x]."}])


def test_datasources_of_the_older_api_are_rejected() -> None:
    old = [{"type": "AzureCognitiveSearch", "parameters": {"filter": "category eq 'x'"}}]
    got = ask(call(ROUTE, {"messages": QUESTION, "dataSources": old}), configured())

    assert (got.status, got.json["error"]["param"]) == (400, "dataSources")


def test_api_key_alone_shows_no_restricted_passages(parts: Parts) -> None:
    search, _, client = parts
    body = {"messages": QUESTION, "data_sources": [source(search, top_n_documents=50)]}
    answers = [client.post(ROUTE, json=body, headers=who) for who in ({}, signed("oid-a", ["g1"]))]
    results = [{each["chunk_id"] for each in context(got)["citations"]} for got in answers]

    assert results[0] == {"public", "plan", "other"}
    assert results[1] > results[0]
    assert not {"for-b", "for-g2", "for-g9"} & results[1]


def test_filter_is_combined_with_access_control(parts: Parts) -> None:
    search, _, client = parts
    body = {
        "messages": QUESTION,
        "data_sources": [source(search, filter="true or category eq null")],
    }
    refused = client.post(ROUTE, json=body, headers=signed("oid-a", ["g1"]))
    condition = search.requests[0].body["filter"]

    assert refused.status_code == 400  # `true` alone is nothing that the index knows
    assert condition.endswith(") and (true or category eq null)")
    assert condition.startswith("((not oids/any()")


def test_stream_helper_of_the_sdk(home: Path) -> None:
    with app(home, CHAT_MODEL="openai", CHAT_API_KEY=CHAT_KEY) as (search, model, client):
        pieces = answer_events("It is in [pl", "an.md]", " and [plan.md].")
        model.plan += [stream_response(pieces)] * 2
        with openai.AzureOpenAI(
            azure_endpoint=str(client.base_url).rstrip("/"),
            api_version="2024-05-01-preview",
            api_key=CHAT_KEY,
            max_retries=0,
            http_client=httpx2.Client(trust_env=False),
        ) as azure:
            completions: Any = azure.chat.completions
            request: Any = {"model": "m", "messages": QUESTION}
            request["extra_body"] = {"data_sources": [source(search)]}
            whole = completions.create(**request).choices[0].message
            with completions.stream(**request) as stream:
                folded = stream.get_final_completion().choices[0].message

    assert folded.content == whole.content == "It is in [doc2] and [doc2]."
    assert folded.context == whole.context
    places = [
        [each.url_citation.start_index for each in message.annotations or ()]
        for message in (whole, folded)
    ]
    assert places == [[9, 20], [9, 20]]
