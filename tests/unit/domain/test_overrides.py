"""Overrides with the SQLite index and the demo model: effective, or named in a thought."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.bootstrap.build import build
from shared.domain.overrides import INTERNAL_FIELDS, Overrides
from shared.protocols.exchange import App
from shared.settings import read_settings
from tests.support.calls import ask, call

REQUEST = {
    "messages": [
        {
            "role": "user",
            "content": "How high is the deductible, and how many vacation days are there?",
        }
    ]
}

# Not supported by the SQLite index and the demo model: named in a thought.
UNSUPPORTED: dict[str, Any] = {
    "temperature": 0,
    "seed": 0,
    "retrieval_mode": "hybrid",
    "semantic_ranker": True,
    "semantic_captions": True,
    "vector_fields": ["embedding"],
    "use_gpt4v": True,
    "gpt4v_input": "images",
    "minimum_reranker_score": 0.0,
    "prompt_template": "Be a pirate.",
}
# Supported, or false.
SUPPORTED: dict[str, Any] = {
    "top": 1,
    "suggest_followup_questions": True,
    "minimum_search_score": 0.0,
    "include_category": "plans",
    "exclude_category": "plans",
    "use_oid_security_filter": False,
    "use_groups_security_filter": False,
    "hybrid_policy": "always_local",
    "model": "demo",
    "thoughts": True,
    "use_whole_documents": True,
}
FALSE: dict[str, Any] = {
    "retrieval_mode": "text",
    "semantic_ranker": False,
    "semantic_captions": False,
    "use_gpt4v": False,
    "gpt4v_input": "text",
    "suggest_followup_questions": False,
    "use_whole_documents": False,
}


@pytest.fixture(scope="module")
def service() -> App:
    return build(read_settings({"INDEX_FILE": "samples"}))


def context(service: App, **overrides: Any) -> Any:
    response = ask(call("/chat", {**REQUEST, "context": {"overrides": overrides}}), service)
    assert response.status == 200
    return response.json["context"]


def notes(context_json: Any) -> list[str]:
    return [note for step in context_json["thoughts"][4:] for note in step["description"]]


def test_tables_cover_every_override() -> None:
    missing = Overrides.model_fields.keys() - UNSUPPORTED.keys() - SUPPORTED.keys()

    assert missing == set(INTERNAL_FIELDS), "see docs/customize.md, An override"
    assert not UNSUPPORTED.keys() & SUPPORTED.keys()


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_override_is_named_in_a_thought(service: App, name: str) -> None:
    context_json = context(service, **{name: UNSUPPORTED[name]})

    assert [step["title"] for step in context_json["thoughts"][4:]] == ["What was used instead"]
    assert [note.split()[0] for note in notes(context_json)] == [name]


@pytest.mark.parametrize("overrides", [SUPPORTED, FALSE])
def test_supported_or_false_override_adds_no_thought(
    service: App, overrides: dict[str, Any]
) -> None:
    assert notes(context(service, **overrides)) == []


def test_unknown_vector_field_is_named_in_text_mode(service: App) -> None:
    usual = context(service, retrieval_mode="text", vector_fields=["embedding"])
    unknown = context(service, retrieval_mode="text", vector_fields=["embedding", "foo"])

    assert notes(usual) == []
    assert notes(unknown) == ["vector_fields was left out: this index has no field foo."]


def categories(context_json: Any) -> set[str]:
    return {hit["category"] for hit in context_json["thoughts"][2]["description"]}


def test_search_overrides_take_effect(service: App) -> None:
    everything = context(service, top=50)["thoughts"][2]["description"]
    best = everything[0]["score"]

    assert len(context(service, top=1)["data_points"]["text"]) == 1
    assert len(context(service)["data_points"]["text"]) == 10
    assert categories(context(service, top=50, include_category="company")) == {"company"}
    assert categories(context(service, top=50, exclude_category="plans")) == {"company"}
    assert len(context(service, top=50, minimum_search_score=best)["data_points"]["text"]) == 1


def test_followup_questions_on_request(service: App) -> None:
    questions = context(service, suggest_followup_questions=True)["followup_questions"]

    assert len(questions) == 3
    assert all(question.endswith("?") for question in questions)
    assert "followup_questions" not in context(service)


def test_demo_model_notes_that_images_are_unsupported(service: App) -> None:
    png = b"\x89PNG\r\n\x1a\n"
    document = json.dumps(REQUEST).encode()
    data = (
        b'--b\r\nContent-Disposition: form-data; name="json"\r\n\r\n' + document + b"\r\n"
        b'--b\r\nContent-Disposition: form-data; name="messages[0].files[0]"; filename="a.png"'
        b"\r\nContent-Type: image/png\r\n\r\n" + png + b"\r\n--b--\r\n"
    )
    response = ask(
        call("/chat", data, headers={"content-type": "multipart/form-data; boundary=b"}), service
    )

    assert response.status == 200
    assert "cannot see" in notes(response.json["context"])[0]
