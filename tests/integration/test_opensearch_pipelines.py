"""A search, and the answer that a pipeline makes of its hits: OpenSearch's RAG pipeline."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.domain import errors
from shared.domain.events import Delta, Done, Source
from shared.http.auth import AccessPolicy
from shared.http.call import Limits
from shared.memory.base import Memory
from shared.models.router import Provider, Router
from shared.protocols.exchange import App
from shared.protocols.opensearch.search import matches, parse_search
from tests.support.calls import ANNA, JSON, BufferedReply, Client, ask, call, local_service
from tests.support.fakes import (
    ANSWER,
    PLUS,
    STANDARD,
    FailingInteractions,
    FakeModel,
    FakeRetriever,
    make_rag,
)
from tests.support.stores import sqlite_memory

OLD = "/_plugins/_ml/memory/conversation"
PIPELINE = "/_search/pipeline/{name}"
SEARCH = "/{index}/_search"
PROCESSOR = {
    "tag": "openai_pipeline_demo",
    "description": "Demo pipeline Using OpenAI Connector",
    "model_id": "fake",
    "context_field_list": ["text"],
    "system_prompt": "You are a helpful assistant",
    "user_instructions": "Generate a concise and informative answer in less than 100 words",
}
QUESTION = "Was Abraham Lincoln a good politician"


def definition(**changed: Any) -> dict[str, Any]:
    processor = {k: v for k, v in (PROCESSOR | changed).items() if v is not None}
    return {"response_processors": [{"retrieval_augmented_generation": processor}]}


def asking(query: Any = None, size: int | None = None, **parameters: Any) -> dict[str, Any]:
    parameters = {"llm_question": QUESTION} | parameters
    body = {"query": query, "size": size, "ext": {"generative_qa_parameters": parameters}}
    return {key: value for key, value in body.items() if value is not None}


def rag(got: BufferedReply) -> Any:
    assert got.status == 200, got.data
    return got.json["ext"]["retrieval_augmented_generation"]


def prompt_messages(model: FakeModel) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in model.calls[-1].messages]


class Desk:
    """A service over fakes with a real memory, and a pipeline called p."""

    def __init__(self, memory: Memory | None, thoughts: bool = True) -> None:
        self.model, self.search = FakeModel(), FakeRetriever()
        self.memory, self.thoughts = memory, thoughts

    @property
    def service(self) -> App:
        rag = replace(make_rag(self.model, self.search), thoughts=self.thoughts)
        return local_service(rag, memory=self.memory)

    @property
    def call(self) -> Client:
        return Client(self.service)

    def search_with(self, body: Any, pipeline: str = "p") -> BufferedReply:
        return self.call("POST", SEARCH, body, "documents", search_pipeline=pipeline)

    def interactions(self, conversation: str) -> Any:
        return self.call("GET", f"{OLD}/{{id}}", path=conversation).json["interactions"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with sqlite_memory(tmp_path) as memory:
        desk = Desk(memory)
        assert desk.call("PUT", PIPELINE, definition(), "p").json == {"acknowledged": True}
        yield desk


def create_conversation(desk: Desk, turns: int = 0) -> str:
    """A conversation of so many turns."""
    conversation = str(desk.call("POST", OLD).json["conversation_id"])
    for turn in range(turns):
        body = {"input": f"question {turn}", "response": f"answer {turn}"}
        desk.call("POST", f"{OLD}/{{id}}", body, conversation)
    return conversation


def test_the_messages_are_those_of_the_document_in_its_order(desk: Desk) -> None:
    conversation = create_conversation(desk, turns=3)
    desk.search_with(asking(conversation_id=conversation, interaction_size=2))

    assert prompt_messages(desk.model) == [
        ("system", "You are a helpful assistant"),
        ("user", "Generate a concise and informative answer in less than 100 words"),
        ("user", f"SEARCH RESULT 1: {PLUS.content}"),
        ("user", f"SEARCH RESULT 2: {STANDARD.content}"),
        ("user", "question 1"),
        ("assistant", "answer 1"),
        ("user", "question 2"),
        ("assistant", "answer 2"),
        ("user", f"QUESTION: {QUESTION}"),
        ("user", "ANSWER:"),
    ]


def test_the_answer_stands_beside_an_ordinary_search_response(desk: Desk) -> None:
    got = desk.search_with(asking({"match": {"text": "lincoln"}}))

    assert rag(got) == {"answer": "Dental care [plans/plus.pdf#page=2]."}
    assert got.json["timed_out"] is False
    assert 0 <= got.json["took"] < 60_000
    assert got.json["hits"]["total"] == {"value": 2, "relation": "eq"}
    assert got.json["hits"]["max_score"] == 2.5
    assert got.json["hits"]["hits"] == [
        {
            "_index": "documents",
            "_id": "plus-2",
            "_score": 2.5,
            "_source": {
                "title": "plus.pdf",
                "text": PLUS.content,
                "content": PLUS.content,
                "sourcepage": "plans/plus.pdf#page=2",
                "sourcefile": "plans/plus.pdf",
                "category": "plans",
            },
        },
        {
            "_index": "documents",
            "_id": "standard-1",
            "_score": 1.25,
            "_source": {
                "title": "standard.md",
                "text": STANDARD.content,
                "content": STANDARD.content,
                "sourcepage": "plans/standard.md",
                "sourcefile": "plans/standard.md",
                "category": "plans",
            },
        },
    ]


def test_without_prompts_of_its_own_a_pipeline_tells_only_what_was_found(desk: Desk) -> None:
    bare = definition(system_prompt=None, user_instructions=None, tag=None)
    desk.call("PUT", PIPELINE, bare, "p")
    desk.search_with(asking(context_size=1))

    assert [role for role, _ in prompt_messages(desk.model)] == ["user", "user", "user"]
    assert prompt_messages(desk.model)[0][1] == f"SEARCH RESULT 1: {PLUS.content}"


def test_each_field_of_each_hit_is_a_result_and_a_field_that_lacks_is_skipped(desk: Desk) -> None:
    desk.search = FakeRetriever([PLUS, replace(STANDARD, category=None)])
    fields = definition(context_field_list=["title", "author", "category"])
    desk.call("PUT", PIPELINE, fields, "p")
    desk.search_with(asking())

    assert [text for _, text in prompt_messages(desk.model)[2:-2]] == [
        "SEARCH RESULT 1: plus.pdf",
        "SEARCH RESULT 2: plans",
        "SEARCH RESULT 3: standard.md",
    ]


@pytest.mark.parametrize(("size", "used"), [(None, 2), (1, 1), (5, 2)])
def test_context_size_is_how_many_hits_are_used(desk: Desk, size: int | None, used: int) -> None:
    got = desk.search_with(asking(**({"context_size": size} if size else {})))

    assert (
        len([text for _, text in prompt_messages(desk.model) if text.startswith("SEARCH RESULT")])
        == used
    )
    assert len(got.json["hits"]["hits"]) == 2


@pytest.mark.parametrize(("parameters", "turns"), [({}, 10), ({"interaction_size": 0}, 0)])
def test_ten_interactions_are_told_unless_another_number_is_asked_for(
    desk: Desk, parameters: dict[str, int], turns: int
) -> None:
    conversation = create_conversation(desk, turns=12)
    desk.search_with(asking(conversation_id=conversation, **parameters))
    history = [
        text for _, text in prompt_messages(desk.model) if text.startswith(("question", "answer"))
    ]

    assert len(history) == 2 * turns
    assert history[:2] == (["question 2", "answer 2"] if turns else [])


def test_a_whole_answer_is_stored_in_the_conversation(desk: Desk) -> None:
    conversation = create_conversation(desk)
    answer = rag(desk.search_with(asking(conversation_id=conversation)))
    (stored,) = desk.interactions(conversation)

    assert answer["interaction_id"] == stored["interaction_id"]
    assert "warning" not in answer
    assert stored["input"] == QUESTION
    assert stored["response"] == answer["answer"]
    assert stored["origin"] == "retrieval_augmented_generation"
    assert stored["prompt_template"] == "\n".join(
        [PROCESSOR["system_prompt"], PROCESSOR["user_instructions"]]  # type: ignore[list-item]
    )
    assert json.loads(stored["additional_info"]) == [PLUS.content, STANDARD.content]


def test_nobody_reads_instructions_where_thoughts_are_off(desk: Desk) -> None:
    private = Desk(desk.memory, thoughts=False)
    conversation = create_conversation(private)
    rag(private.search_with(asking(conversation_id=conversation)))
    definitions = private.call("GET", "/_search/pipeline").json
    definitions["p alone"] = private.call("GET", PIPELINE, path="p").json["p"]
    (stored,) = private.interactions(conversation)

    assert ("system", PROCESSOR["system_prompt"]) in prompt_messages(private.model)
    assert stored["prompt_template"] == ""
    assert definitions.keys() == {"default", "p", "p alone"}
    for each in definitions.values():
        (processor,) = each["response_processors"]
        shown = processor["retrieval_augmented_generation"]
        assert "model_id" in shown
        assert not {"system_prompt", "user_instructions"} & shown.keys()


@pytest.mark.parametrize(
    "later", [{"memory_id": True}, {"conversation_id": True, "message_size": 1}]
)
def test_the_names_of_the_parameters_are_those_of_the_answer(desk: Desk, later: Any) -> None:
    conversation = create_conversation(desk, turns=2)
    named: dict[str, Any] = {k: conversation if v is True else v for k, v in later.items()}
    answer = rag(desk.search_with(asking(**named)))

    assert answer.keys() == {"answer", "message_id"}
    assert answer["message_id"] == desk.interactions(conversation)[0]["interaction_id"]
    history = [text for _, text in prompt_messages(desk.model) if text.startswith("question")]
    assert len(history) == later.get("message_size", 2)


FAILURES = [
    (errors.TooManyRequests(), errors.TooManyRequests.default),
    (errors.Unavailable(), errors.Unavailable.default),
    (errors.ContentFiltered(), errors.FILTERED_MESSAGE),
    (errors.Misconfigured(), errors.Misconfigured.default),
]


@pytest.mark.parametrize(("failure", "sentence"), FAILURES, ids=repr)
@pytest.mark.parametrize("begin", [(), (Delta("Half an answer"),)], ids=["refused", "broken off"])
def test_a_model_that_fails_is_told_beside_the_hits_and_nothing_is_stored(
    desk: Desk, begin: Sequence[Delta], failure: Exception, sentence: str
) -> None:
    conversation = create_conversation(desk)
    desk.model = FakeModel([*begin, failure])
    got = desk.search_with(asking(conversation_id=conversation))

    assert rag(got) == {"error": sentence}
    assert len(got.json["hits"]["hits"]) == 2
    assert desk.interactions(conversation) == []
    assert desk.model.open_streams == 0


def test_an_answer_that_breaks_off_is_a_failure_of_the_model(desk: Desk) -> None:
    desk.model = FakeModel([Delta("Half")])

    assert rag(desk.search_with(asking())) == {"error": "The model's answer broke off. Ask again."}


def test_a_model_has_so_many_seconds(desk: Desk) -> None:
    conversation = create_conversation(desk)
    desk.model = FakeModel([Delta("Half"), asyncio.Event()])
    got = desk.search_with(asking(timeout=0.05, conversation_id=conversation))

    assert rag(got) == {"error": "The model did not answer within 0.05 seconds."}
    assert len(got.json["hits"]["hits"]) == 2
    assert desk.interactions(conversation) == []
    assert desk.model.open_streams == 0


def test_a_model_has_no_more_time_than_the_request(desk: Desk) -> None:
    desk.model = FakeModel([Delta("Half"), asyncio.Event()])
    service = replace(desk.service, limits=Limits(request_seconds=1.2, memory_seconds=0.1))
    got = Client(service)("POST", SEARCH, asking(timeout=600), "documents", search_pipeline="p")

    assert re.fullmatch(r"The model did not answer within 1(\.\d+)? seconds\.", rag(got)["error"])
    assert len(got.json["hits"]["hits"]) == 2


@pytest.mark.parametrize("failure", [errors.Unavailable(), errors.TooManyRequests()], ids=repr)
def test_a_memory_that_fails_costs_no_answer(
    desk: Desk, failure: errors.ChatError, caplog: pytest.LogCaptureFixture
) -> None:
    conversation = create_conversation(desk)
    assert desk.memory is not None
    whole = desk.memory
    desk.memory = replace(whole, interactions=FailingInteractions(whole.interactions, failure))
    answer = rag(desk.search_with(asking(conversation_id=conversation)))

    assert answer == {
        "answer": "Dental care [plans/plus.pdf#page=2].",
        "warning": "The answer could not be stored in the conversation.",
    }
    assert f"memory: not stored: {type(failure).__name__}" in caplog.text
    assert QUESTION not in caplog.text


@pytest.mark.parametrize(
    ("failure", "status", "kind"),
    [
        (errors.TooManyRequests(retry_after=3), 429, "rejected_execution_exception"),
        (errors.Unavailable(), 503, "unavailable_exception"),
        (errors.DeadlineExceeded(), 504, "timeout_exception"),
        (errors.Unsupported(), 501, "unsupported_operation_exception"),
        (RuntimeError("bug"), 500, "exception"),
    ],
)
def test_a_search_that_fails_has_its_real_status_and_type(
    desk: Desk, failure: Exception, status: int, kind: str
) -> None:
    desk.search = FakeRetriever(error=failure)
    got = desk.search_with(asking())

    assert (got.status, got.json["status"], got.json["error"]["type"]) == (status, status, kind)
    assert ("Retry-After" in got.headers) == (status in (429, 503))
    assert desk.model.calls == []


def test_what_does_not_fit_the_model_is_left_out_and_not_called_a_context(desk: Desk) -> None:
    long = Source("long", "word " * 500, "long.md", "long.md", score=1.0)
    desk.search = FakeRetriever([PLUS, long, STANDARD])
    desk.model = FakeModel(max_prompt_tokens=120)
    conversation = create_conversation(desk, turns=8)
    desk.search_with(asking(conversation_id=conversation))
    texts = [text for _, text in prompt_messages(desk.model)]

    assert [text for text in texts if text.startswith("SEARCH")] == [
        f"SEARCH RESULT 1: {PLUS.content}"
    ]
    history = [text for text in texts if text.startswith(("question", "answer"))]
    assert 0 < len(history) < 16
    assert history[-1] == "answer 7"
    assert json.loads(desk.interactions(conversation)[0]["additional_info"]) == [PLUS.content]


def test_a_question_that_is_too_long_is_told_beside_the_hits(desk: Desk) -> None:
    desk.model = FakeModel(max_prompt_tokens=20)

    assert rag(desk.search_with(asking()))["error"].startswith("The question is too long")


FORMS: list[tuple[Any, str]] = [
    ({"match": {"text": "lincoln"}}, "lincoln"),
    ({"match": {"text": {"query": "lincoln", "operator": "and"}}}, "lincoln"),
    ({"query_string": {"query": "lincoln OR grant", "default_field": "text"}}, "lincoln OR grant"),
    (
        {"neural": {"passage_embedding": {"query_text": "lincoln", "model_id": "x", "k": 5}}},
        "lincoln",
    ),
    ({"match_all": {}}, QUESTION),
    ({}, QUESTION),
    (None, QUESTION),
]


@pytest.mark.parametrize(("query", "words"), FORMS)
def test_every_form_of_query_that_is_known_finds_words(desk: Desk, query: Any, words: str) -> None:
    desk.search_with(asking(query, size=7))
    ((_, searched, overrides),) = desk.search.calls

    assert (searched, overrides.top) == (words, 7)


@pytest.mark.parametrize(
    "query",
    [
        {"term": {"category": "plans"}},
        {"bool": {"must": []}},
        {"match": {"text": "a"}, "query_string": {"query": "b"}},
        {"match": {"text": {"operator": "and"}}},
        {"match": "lincoln"},
        {"neural": {"field": {"query_image": "x"}}},
        {"query_string": "lincoln"},
        "lincoln",
        [{"match": {"text": "a"}}],
    ],
)
def test_another_form_of_query_is_refused(desk: Desk, query: Any) -> None:
    got = desk.search_with(asking(query))

    assert (got.status, got.json["error"]["type"]) == (400, "parsing_exception")
    assert got.json["error"]["reason"].startswith("query: ")
    assert desk.search.calls == []


def test_a_search_without_a_pipeline_is_a_search(desk: Desk) -> None:
    got = desk.call("GET", SEARCH, {"query": {"match": {"text": "x"}}}, "documents")
    quiet = desk.call("POST", SEARCH, asking(), "documents", search_pipeline="_none")
    by_parameter = desk.call("GET", SEARCH, b"", "documents", q="x", size=1)

    assert [each.status for each in (got, quiet, by_parameter)] == [200, 200, 200]
    assert all("ext" not in each.json for each in (got, quiet, by_parameter))
    assert [(words, o.top) for _, words, o in desk.search.calls] == [
        ("x", 10),
        (QUESTION, 10),
        ("x", 1),
    ]
    assert desk.model.calls == []


def test_without_words_and_without_a_question_there_is_nothing_to_search(desk: Desk) -> None:
    got = desk.call("GET", SEARCH, {"query": {"match_all": {}}}, "documents")

    assert (got.status, got.json["error"]["type"]) == (400, "parsing_exception")


def test_a_question_without_a_pipeline_is_for_the_default_one(desk: Desk) -> None:
    got = desk.call("POST", "/_search", asking())

    assert rag(got)["answer"]
    assert prompt_messages(desk.model)[0] == ("system", "Search.")
    assert desk.call("GET", PIPELINE, path="default").status == 200


def test_a_size_of_none_is_no_search_and_an_answer_without_hits(desk: Desk) -> None:
    got = desk.search_with(asking(size=0))

    assert got.json["hits"]["hits"] == []
    assert rag(got)["answer"]
    assert desk.search.calls == []


@pytest.mark.parametrize(
    ("source", "query", "keys"),
    [
        (False, {}, None),
        (["text"], {}, {"text"}),
        ("sourcefile", {}, {"sourcefile"}),
        ({"includes": ["source*"]}, {}, {"sourcepage", "sourcefile"}),
        ({"excludes": ["text", "content"]}, {}, {"title", "sourcepage", "sourcefile", "category"}),
        (None, {"_source": "false"}, None),
        (None, {"_source": "title,text"}, {"title", "text"}),
        (None, {"_source_excludes": "t*,c*"}, {"sourcepage", "sourcefile"}),
        (None, {"_source_includes": "text"}, {"text"}),
    ],
)
def test_only_the_fields_that_are_asked_for_are_shown(
    desk: Desk, source: Any, query: dict[str, str], keys: set[str] | None
) -> None:
    body = {"query": {"match": {"text": "x"}}} | ({} if source is None else {"_source": source})
    got = desk.call("POST", SEARCH, body, "documents", **query)
    (first, _) = got.json["hits"]["hits"]

    assert (first.get("_source", None) and first["_source"].keys()) == keys


def test_configured_model_answers_by_its_name_and_llm_model_overrides_the_pipeline(
    tmp_path: Path,
) -> None:
    models = {name: FakeModel((Delta(name), Done())) for name in ("small", "large")}
    for name, model in models.items():
        model.name = name
    provider = Provider("server", "local", lambda name: models[name or "small"], tuple(models))
    parts = replace(make_rag(), models=Router([provider]))
    with sqlite_memory(tmp_path) as memory:
        service = local_service(parts, AccessPolicy(single_user=True), memory=memory)
        pipeline = call(PIPELINE, definition(model_id="large"), method="PUT", path="p")
        stored = ask(pipeline, service)

        def search(**options: Any) -> BufferedReply:
            query = {"search_pipeline": "p"}
            return ask(call(SEARCH, asking(**options), path="documents", query=query), service)

        by_pipeline, by_question = search(), search(llm_model="small")
        unknown = search(llm_model="gpt-9")

    assert stored.status == 200, stored.data
    assert rag(by_pipeline)["answer"] == "large"
    assert rag(by_question)["answer"] == "small"
    assert unknown.status == 400
    assert "the models are small, large" in unknown.json["error"]["reason"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"llm_question": None}, "ext.generative_qa_parameters.llm_question: must be a string"),
    ({"llm_question": " "}, "ext.generative_qa_parameters.llm_question: must not be empty"),
    ({"context_size": 0}, "ext.generative_qa_parameters.context_size: must be 1 or more"),
    ({"interaction_size": -1}, "ext.generative_qa_parameters.interaction_size: must be 0 or more"),
    ({"timeout": 0}, "ext.generative_qa_parameters.timeout: must be more than 0"),
    ({"timeout": "15"}, "ext.generative_qa_parameters.timeout: must be a number"),
    (
        {"llm_model": "gpt-3.5-turbo"},
        "ext.generative_qa_parameters.llm_model: is not configured here: the model is fake",
    ),
]


@pytest.mark.parametrize(("parameters", "reason"), WRONG)
def test_a_wrong_parameter_is_named_before_anything_is_asked(
    desk: Desk, parameters: dict[str, Any], reason: str
) -> None:
    got = desk.search_with(asking(**parameters))

    assert (got.status, got.json["error"]["reason"]) == (400, reason)
    assert (desk.search.calls, desk.model.calls) == ([], [])


@pytest.mark.parametrize(
    ("body", "query", "reason"),
    [
        ({"size": 51}, {}, "size: must be 50 or less"),
        ({"size": -1}, {}, "size: must be a whole number, 0 or more"),
        ({"size": True}, {}, "size: must be a whole number, 0 or more"),
        ({}, {"size": "x"}, "size: must be a whole number, 0 or more"),
        ({"from": 10}, {}, "from: is not possible here: ask for a larger size"),
        ({"_source": 7}, {}, None),
        ({"_source": {"includes": 7}}, {}, None),
        ({}, {"search_pipeline": "p"}, None),
    ],
)
def test_a_wrong_search_is_named(desk: Desk, body: Any, query: Any, reason: str | None) -> None:
    search = {"query": {"match": {"text": "x"}}} | body
    got = desk.call("POST", SEARCH, search, "documents", **query)

    assert (got.status, got.json["error"]["type"]) == (400, "illegal_argument_exception")
    assert reason in (None, got.json["error"]["reason"])
    assert desk.search.calls == []


def test_there_is_one_index(desk: Desk) -> None:
    got = desk.call("POST", SEARCH, asking(), "qa_demo")

    assert (got.status, got.json["error"]["type"]) == (404, "index_not_found_exception")
    assert desk.search.calls == []


@pytest.mark.parametrize("pipeline", ["other", "", "P"])
def test_a_pipeline_that_is_not_there(desk: Desk, pipeline: str) -> None:
    got = desk.search_with(asking(), pipeline)

    assert (got.status, got.json["error"]["type"]) == (404, "resource_not_found_exception")
    assert got.json["error"]["reason"] == f"Pipeline [{pipeline}] not found"
    assert desk.search.calls == []


@pytest.mark.parametrize("whose", ["missing", "foreign"])
def test_a_conversation_of_somebody_else_is_not_found_before_anything_is_asked(
    desk: Desk, whose: str
) -> None:
    conversation = create_conversation(desk) if whose == "foreign" else "0" * 24
    service = local_service(
        make_rag(desk.model, desk.search),
        AccessPolicy(sign_in=True, single_user=False),
        memory=desk.memory,
    )
    body = asking(conversation_id=conversation)
    got = Client(service, ANNA)("POST", SEARCH, body, "documents", search_pipeline="p")

    assert got.json["error"]["reason"] == f"Conversation [{conversation}] not found"
    assert (desk.search.calls, desk.model.calls) == ([], [])


def test_a_search_shows_a_user_what_a_chat_would(desk: Desk) -> None:
    service = local_service(
        make_rag(desk.model, desk.search), AccessPolicy(sign_in=True, single_user=False)
    )
    Client(service, ANNA)("POST", SEARCH, {"query": {"match": {"text": "x"}}}, "documents")
    ((user, _, overrides),) = desk.search.calls

    assert user.oid == "anna"
    assert (overrides.use_oid_security_filter, overrides.use_groups_security_filter) == (True, True)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            {},
            "response_processors: must be a list of one object with retrieval_augmented_generation",
        ),
        ({"response_processors": []}, None),
        ({"response_processors": [{"rename_field": {}}]}, None),
        ({**definition(), "request_processors": [{"filter_query": {}}]}, None),
        (definition(description=7), "description: must be a string"),
        (definition(description=None), "description: is required"),
        (definition(model_id=None), "model_id: is required"),
        (definition(model_id="gpt-9"), "model_id: is not configured here: the model is fake"),
        (definition(context_field_list=[]), "context_field_list: must not be empty"),
        (definition(context_field_list="text"), "context_field_list: must be a list"),
    ],
)
def test_a_wrong_pipeline_is_named_and_not_stored(
    desk: Desk, body: Any, reason: str | None
) -> None:
    got = desk.call("PUT", PIPELINE, body, "wrong")

    assert got.status == 400
    assert (reason or "response_processors: ") in got.json["error"]["reason"]
    assert desk.call("GET", PIPELINE, path="wrong").status == 404


@pytest.mark.parametrize("name", ["", "_none", "x" * 101, "a/b", "a%2Fb", "..", "a b", "a\n", "*"])
def test_a_name_that_no_pipeline_can_have(desk: Desk, name: str) -> None:
    assert desk.call("PUT", PIPELINE, definition(), name).status == 400


def test_what_does_nothing_in_a_pipeline_is_not_kept(desk: Desk) -> None:
    raw = json.dumps(definition()).removesuffix("}").encode() + b', "version": 1e400, "x": "y"}'

    assert desk.call("PUT", PIPELINE, raw, "odd").status == 200
    assert desk.call("GET", PIPELINE, path="odd").json == {"odd": definition()}
    assert desk.call("GET", "/_search/pipeline").status == 200


def test_a_pipeline_for_a_model_that_is_no_longer_configured_says_so(desk: Desk) -> None:
    assert desk.memory is not None
    asyncio.run(desk.memory.pipelines.put("old", definition(model_id="gone")))
    got = desk.search_with(asking(), "old")

    assert got.status == 400
    assert "the pipeline's model_id (gone): is not configured" in got.json["error"]["reason"]
    assert desk.search.calls == []


def test_pipelines_are_put_got_listed_and_deleted(desk: Desk) -> None:
    assert desk.call("GET", PIPELINE, path="p").json == {"p": definition()}
    assert desk.call("GET", "/_search/pipeline").json.keys() == {"default", "p"}
    assert desk.call("DELETE", PIPELINE, path="p").json == {"acknowledged": True}
    assert desk.call("DELETE", PIPELINE, path="p").status == 404
    assert desk.call("GET", PIPELINE, path="p").status == 404


def test_a_stored_default_stands_in_the_place_of_the_one_of_the_settings(desk: Desk) -> None:
    default = desk.call("GET", PIPELINE, path="default").json
    desk.call("PUT", PIPELINE, definition(system_prompt="Ours."), "default")
    desk.call("POST", "/_search", asking())

    assert prompt_messages(desk.model)[0] == ("system", "Ours.")
    assert desk.call("DELETE", PIPELINE, path="default").status == 200
    assert desk.call("GET", PIPELINE, path="default").json == default


ADMIN_CLAIMS = "eyJjbGFpbXMiOlt7InR5cCI6InJvbGVzIiwidmFsIjoiQ2hhdC5BZG1pbiJ9XX0="
OTHER_CLAIMS = "eyJjbGFpbXMiOlt7InR5cCI6InJvbGVzIiwidmFsIjoiQ2hhdC5SZWFkZXIifV19"
CHANGES = [("PUT", PIPELINE), ("DELETE", PIPELINE), ("PUT", "/_cluster/settings")]
FEATURE = {"persistent": {"plugins.ml_commons.memory_feature_enabled": True}}


@pytest.mark.parametrize(("method", "route"), CHANGES)
def test_where_people_sign_in_only_admins_change_what_holds_for_all(
    desk: Desk, method: str, route: str
) -> None:
    service = local_service(
        make_rag(), AccessPolicy(sign_in=True, single_user=False), memory=desk.memory
    )
    body = FEATURE if "settings" in route else definition(system_prompt="stolen")
    name = "p" if "{name}" in route else ""

    def status(headers: dict[str, str]) -> tuple[int, str | None]:
        got = Client(service, JSON | headers)(method, route, body, name)
        return got.status, got.json.get("error", {}).get("type")

    assert status({}) == (401, "security_exception")
    anna = {"x-ms-client-principal-id": "anna"}
    assert status(anna) == (403, "security_exception")
    assert status(anna | {"x-ms-client-principal": OTHER_CLAIMS}) == (403, "security_exception")
    assert status({"x-ms-client-principal": ADMIN_CLAIMS}) == (401, "security_exception")
    assert desk.call("GET", PIPELINE, path="p").json == {"p": definition()}
    assert status(anna | {"x-ms-client-principal": ADMIN_CLAIMS}) == (200, None)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"persistent": {"plugins.ml_commons.memory_feature_enabled": True}},
            {"plugins.ml_commons.memory_feature_enabled": True},
        ),
        (
            {"persistent": {"plugins.ml_commons.rag_pipeline_feature_enabled": "true"}},
            {"plugins.ml_commons.rag_pipeline_feature_enabled": "true"},
        ),
        (
            {"persistent": {"plugins": {"ml_commons": {"memory_feature_enabled": True}}}},
            {"plugins.ml_commons.memory_feature_enabled": True},
        ),
    ],
)
def test_the_first_steps_of_the_document_succeed(desk: Desk, settings: Any, expected: Any) -> None:
    got = desk.call("PUT", "/_cluster/settings", settings)

    assert got.json == {"acknowledged": True, "persistent": expected, "transient": {}}


@pytest.mark.parametrize(
    "settings",
    [
        {"persistent": {"plugins.ml_commons.memory_feature_enabled": False}},
        {"persistent": {"cluster.max_shards_per_node": 1}},
        {"transient": {"memory_feature_enabled_": True}},
        {"persistent": ["x"]},
        {"persistent": []},
        {"persistent": {"cluster": {}}},
        {"persistant": {"plugins.ml_commons.memory_feature_enabled": True}},
        {"persistent": {"x" * 300: {"y": {"z": 1}}}},
        {"persistent": {}},
        {},
    ],
)
def test_no_other_setting_of_a_cluster_can_be_set(desk: Desk, settings: Any) -> None:
    assert desk.call("PUT", "/_cluster/settings", settings).status == 400


def test_without_memory_there_is_the_default_pipeline_and_no_other() -> None:
    desk = Desk(None)

    assert rag(desk.call("POST", SEARCH, asking(), "documents", search_pipeline="default"))[
        "answer"
    ]
    assert desk.call("GET", "/_search/pipeline").json.keys() == {"default"}
    assert desk.call("PUT", PIPELINE, definition(), "p").status == 501
    assert desk.call("DELETE", PIPELINE, path="p").status == 501
    assert desk.search_with(asking(conversation_id="x"), "default").status == 501


def test_a_model_has_thirty_seconds_unless_more_are_asked_for() -> None:
    default = parse_search(asking(), {}).question
    longer = parse_search(asking(timeout=90), {}).question

    assert (default and default.seconds, longer and longer.seconds) == (30, 90)


def test_a_client_that_leaves_ends_the_work(desk: Desk) -> None:
    desk.model = FakeModel([Delta("Half"), asyncio.Event()])

    async def gone() -> bool:
        return desk.model.open_streams > 0

    conversation = create_conversation(desk)
    search = call(SEARCH, asking(conversation_id=conversation), gone=gone, path="documents")
    got = ask(search, desk.service)

    assert got.status == 499
    assert desk.model.open_streams == 0
    assert desk.interactions(conversation) == []


def test_half_a_turn_is_no_history(desk: Desk) -> None:
    conversation = create_conversation(desk)
    for body in ({"origin": "x"}, {"response": "only"}, {"input": "only"}, {"input": " "}):
        desk.call("POST", f"{OLD}/{{id}}", body, conversation)
    desk.search_with(asking(conversation_id=conversation))

    assert [role for role, _ in prompt_messages(desk.model)] == ["system"] + ["user"] * 5


def test_an_empty_answer_is_not_stored_and_says_so(desk: Desk) -> None:
    desk.model = FakeModel([Done()])
    conversation = create_conversation(desk)
    answer = rag(desk.search_with(asking(conversation_id=conversation)))

    assert answer == {"answer": "", "warning": "The answer is empty: it was not stored."}
    assert desk.interactions(conversation) == []


def test_a_conversation_that_is_named_is_looked_for(desk: Desk) -> None:
    empty = desk.search_with(asking(conversation_id=""))
    both = desk.search_with(
        asking(conversation_id=create_conversation(desk), memory_id=create_conversation(desk))
    )

    assert (empty.status, both.status) == (404, 400)


@pytest.mark.parametrize(
    ("failure", "level"), [(errors.Unavailable(), "WARNING"), (errors.TooLong(), "INFO")]
)
def test_the_line_of_the_log_tells_what_became_of_it(
    desk: Desk, failure: errors.ChatError, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    whole = desk.search_with(asking())
    desk.model = FakeModel([failure])
    failed = desk.search_with(asking())
    lines = [record for record in caplog.records if "POST /{index}/_search" in record.message]

    assert (whole.status, failed.status) == (200, 200)
    assert "hits=2 tokens=49 outcome=ok" in lines[0].message
    assert f"hits=2 tokens=- outcome={type(failure).__name__}" in lines[1].message
    assert [record.levelname for record in lines] == ["INFO", level]


def test_a_full_page_says_that_there_may_be_more(desk: Desk) -> None:
    full = desk.call("POST", SEARCH, {"query": {"match": {"t": "x"}}, "size": 2}, "documents")

    assert full.json["hits"]["total"] == {"value": 2, "relation": "gte"}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", {"text", "title", "category"}),
        ("t*", {"text", "title"}),
        ("*t*t*", {"text", "title"}),
        ("te*xt", {"text"}),
        ("t*t", {"text"}),
        ("tex*ext", set()),
        ("t?xt", set()),
        ("[t]ext", set()),
        ("", set()),
    ],
)
def test_only_a_star_is_special_in_a_pattern(pattern: str, names: set[str]) -> None:
    assert {name for name in ("text", "title", "category") if matches(name, pattern)} == names


@pytest.mark.parametrize("patterns", [["[" * 100_000], ["x" * 101], ["x"] * 51])
def test_patterns_are_held_to_limits(desk: Desk, patterns: list[str]) -> None:
    body = {"query": {"match": {"text": "x"}}, "_source": patterns}

    assert desk.call("POST", SEARCH, body, "documents").status == 400


def test_the_model_is_asked_as_a_chat_asks_it(desk: Desk) -> None:
    desk.model = FakeModel([*ANSWER[:-1], Done("length")])
    desk.search_with(asking())
    (prompt,) = desk.model.calls

    assert (prompt.task, prompt.temperature) == ("answer", 0.3)


@pytest.mark.parametrize("ext", [False, "", [], 0])
def test_an_extension_of_another_type_is_refused(desk: Desk, ext: Any) -> None:
    got = desk.call("POST", "/_search", {"query": {"match_all": {}}, "ext": ext})

    assert got.status == 400
    assert "ext.generative_qa_parameters must be an object" in got.json["error"]["reason"]
