"""Every override, sent to the app: what reaches the search service and the model on their wires."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.chat.overrides import INTERNAL_FIELDS, Overrides
from tests.integration.test_azure_search import app, ask, home, notes
from tests.support.fake_search import Search
from tests.support.servers import SIGN_IN
from tests.support.upstream import Upstream

__all__ = ["home"]  # a fixture

Parts = tuple[Search, Upstream, httpx.Client]
BERT = "oids/any(o: o eq 'oid-b')"
GROUPS = "groups/any(g: search.in(g, 'g2,g3', ','))"

# The value, where it is read (the search's body or the chat's), and what must stand there.
SENT: dict[str, tuple[Any, str, str, Any]] = {
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
    "suggest_followup_questions": (True, "chat", "messages", "double angle brackets"),
}
# They act on the answer of the search: what comes back is tried where the search is.
AFTER = {"minimum_search_score", "minimum_reranker_score"}
# Images are neither index's yet: a thought says so.
NOT_YET = {"use_gpt4v", "gpt4v_input"}
# They choose who answers, which is tried with more than one.
WHO = {"hybrid_policy", "model"}


@pytest.fixture(scope="module")
def whole(home: Path) -> Iterator[Parts]:
    """An app with everything that an override can ask for."""
    more = {
        "CHAT_MODEL": "openai",
        "OPENAI_EMBEDDING_MODEL": "e",
        "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "ranking",
        "ALLOW_CLIENT_PROMPTS": "true",
        **SIGN_IN,
        "FORCE_SECURITY_FILTERS": "false",
    }
    with app(home, **more) as parts:
        yield parts


def test_every_override_is_in_the_table() -> None:
    assert (
        SENT.keys() | AFTER | NOT_YET | WHO | set(INTERNAL_FIELDS) == Overrides.model_fields.keys()
    )


@pytest.mark.parametrize("name", SENT)
def test_an_override_acts_on_the_wire_and_only_when_it_is_sent(whole: Parts, name: str) -> None:
    value, place, key, expected = SENT[name]
    search, model, client = whole
    needed = {"semantic_ranker": True} if name == "semantic_captions" else {}
    seen = []
    for overrides in ({name: value, **needed}, needed):
        search.asked.clear()
        model.asked.clear()
        response = ask(client, "bert", **overrides)
        sent = search.asked[0].body if place == "search" else model.asked[-1].body
        seen.append(sent.get(key))

        assert notes(response) == []
    acting, default = seen

    if isinstance(expected, str) and not isinstance(acting, str):
        acting, default = str(acting), str(default)
    found = expected in acting if isinstance(expected, str) else acting == expected
    assert found
    assert acting != default or name == "vector_fields"  # the index has but one


@pytest.mark.parametrize("name", sorted(NOT_YET))
def test_what_asks_for_images_is_named_by_a_thought(whole: Parts, name: str) -> None:
    asked: dict[str, Any] = {name: True if name == "use_gpt4v" else "images"}

    assert [note.split()[0] for note in notes(ask(whole[2], **asked))] == [name]
