"""Every override of a request: its effect on the requests to the search service and the model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.domain.overrides import INTERNAL_FIELDS, Overrides
from tests.support.fake_search import FakeSearch
from tests.support.prompts import APP_PROMPTS
from tests.support.search_app import app, ask, home, notes
from tests.support.servers import SIGN_IN
from tests.support.upstream import Upstream

__all__ = ["home"]  # a fixture

Parts = tuple[FakeSearch, Upstream, httpx.Client]
BERT = "oids/any(o: o eq 'oid-b')"
FOLLOWUPS = APP_PROMPTS.followups.splitlines()[0]
GROUPS = "groups/any(g: search.in(g, 'g2,g3', ','))"

# The value, the upstream that it acts on, the field of the body, and its value there.
EFFECTS: dict[str, tuple[Any, str, str, Any]] = {
    "temperature": (0, "chat", "temperature", 0),
    "seed": (0, "chat", "seed", 0),
    "top": (7, "search", "top", 7),
    "retrieval_mode": ("vectors", "search", "search", None),
    "semantic_ranker": (True, "search", "queryType", "semantic"),
    "semantic_captions": (True, "search", "captions", "extractive|highlight-false"),
    "vector_fields": (["embedding"], "search", "vectorQueries", "embedding"),
    "use_oid_security_filter": (True, "search", "filter", BERT),
    "use_groups_security_filter": (True, "search", "filter", GROUPS),
    "include_category": ("a'b", "search", "filter", "category eq 'a''b'"),
    "exclude_category": ("a'b", "search", "filter", "category ne 'a''b'"),
    "prompt_template": ("Be a pirate.", "chat", "messages", "Be a pirate."),
    "suggest_followup_questions": (True, "chat", "messages", FOLLOWUPS),
}
# These act on the response of the search: tests/integration/test_azure_search.py tests them.
RESPONSE_FILTERS = {"minimum_search_score", "minimum_reranker_score"}
# The fake index has no images: a thought says so.
IMAGES = {"use_gpt4v", "gpt4v_input"}
# These select a model: tests/integration/test_router.py tests them.
MODEL_SELECTION = {"hybrid_policy", "model"}
# These act on the answer alone: tests/unit/protocols/ai_chat/test_request.py tests them.
ANSWER_OPTIONS = {"thoughts"}
# These act on what follows the search: tests/integration/test_whole_documents.py tests them.
DOCUMENTS = {"use_whole_documents"}


@pytest.fixture(scope="module")
def full_app(home: Path) -> Iterator[Parts]:
    """An app in which every override has an effect."""
    settings = {
        "CHAT_MODEL": "openai",
        "OPENAI_EMBEDDING_MODEL": "e",
        "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "ranking",
        "ALLOW_CLIENT_PROMPTS": "true",
        **SIGN_IN,
        "FORCE_SECURITY_FILTERS": "false",
    }
    with app(home, **settings) as parts:
        yield parts


def test_every_override_is_in_the_table() -> None:
    others = RESPONSE_FILTERS | IMAGES | MODEL_SELECTION | ANSWER_OPTIONS | DOCUMENTS
    missing = Overrides.model_fields.keys() - EFFECTS.keys() - others - set(INTERNAL_FIELDS)

    assert not missing, "an override needs a row in one of the tables above (docs/customize.md)"


@pytest.mark.parametrize("name", EFFECTS)
def test_an_override_changes_the_request_only_if_it_is_sent(full_app: Parts, name: str) -> None:
    value, upstream, key, expected = EFFECTS[name]
    search, model, client = full_app
    required = {"semantic_ranker": True} if name == "semantic_captions" else {}
    values = []
    for overrides in ({name: value, **required}, required):
        search.requests.clear()
        model.requests.clear()
        response = ask(client, "bert", **overrides)
        body = search.requests[0].body if upstream == "search" else model.requests[-1].body
        values.append(body.get(key))

        assert notes(response) == []
    actual, default = values

    if isinstance(expected, str) and not isinstance(actual, str):
        actual, default = str(actual), str(default)
    assert expected in actual if isinstance(expected, str) else actual == expected
    assert actual != default or name == "vector_fields"  # the index has only one


@pytest.mark.parametrize("name", sorted(IMAGES))
def test_a_note_says_that_images_are_not_available(full_app: Parts, name: str) -> None:
    overrides: dict[str, Any] = {name: True if name == "use_gpt4v" else "images"}

    assert [note.split()[0] for note in notes(ask(full_app[2], **overrides))] == [name]
