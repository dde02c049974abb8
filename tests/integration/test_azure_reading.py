"""What an app asks an index beside passages: whose a file is, and the pictures of its passages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from shared.chat import errors
from shared.chat.overrides import Overrides
from shared.chat.request import User
from shared.retrieval.azure_search.field_mapping import IndexFields
from shared.retrieval.azure_search.retriever import AzureSearchRetriever
from shared.retrieval.base import MOST_PICTURES
from tests.integration.test_azure_search import DOCS, READERS, SELECT, USERS
from tests.support.fake_search import Search, document
from tests.support.filling import certificates, connected
from tests.support.upstream import upstream


def over(
    docs: Sequence[Mapping[str, Any]], work: Callable[[AzureSearchRetriever], Any], **more: Any
) -> Any:
    """What `work` gives with a retriever over these documents, and the bodies that were sent."""

    async def searched() -> Any:
        async with connected(search) as clients:
            return await work(AzureSearchRetriever(clients.documents, IndexFields(), 2, **more))

    with upstream(Search(docs=docs), certificates()[0]) as search:
        result = asyncio.run(searched())
    return result, [asked.body for asked in search.asked]


BOTH = Overrides(top=50, use_oid_security_filter=True, use_groups_security_filter=True)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("user", [User(), *(User(oid, tuple(of)) for oid, of in USERS.values())])
def test_a_file_is_readable_for_whoever_may_find_a_passage_of_it(user: User, name: str) -> None:
    oids, groups = READERS[name]
    readable, (body,) = over(DOCS, lambda index: index.readable(user, f"{name}.md", BOTH))

    assert readable is (not oids + groups or user.oid in oids or bool({*user.groups} & {*groups}))
    assert body["filter"].endswith(f" and sourcefile eq '{name}.md'")
    assert (body["search"], body["select"], body["top"]) == ("*", "id", 1)


@pytest.mark.parametrize("name", ["nothing.md", "' or true or sourcefile eq 'public.md"])
def test_a_file_that_is_not_there_is_not_readable_whatever_its_name(name: str) -> None:
    readable, _ = over(DOCS, lambda index: index.readable(User(), name, BOTH))

    assert readable is False


SHOWN = [document(f"d{n}", image=f"key-{n}" if n != 1 else None) for n in range(12)]
SEEING = Overrides(top=12, use_gpt4v=True)


async def painted(key: str) -> str | None:
    """A store of pictures that loses one, and fails for another."""
    if key == "key-3":
        raise errors.Unavailable()
    return None if key == "key-4" else f"data:image/png;base64,{key}"


def test_the_first_pictures_come_with_their_passages_and_a_note_says_what_is_missing() -> None:
    found, (body,) = over(SHOWN, lambda i: i.search(User(), "x", SEEING), pictures=painted)
    seen = [n for n, source in enumerate(found.sources) if source.image]

    assert body["select"] == f"{SELECT},image"
    assert seen == [0, 2, 5, 6, 7, 8]
    assert len(seen) == MOST_PICTURES - 2
    assert found.sources[2].image == "data:image/png;base64,key-2"
    assert found.notes == ("use_gpt4v: 2 of 8 pictures could not be fetched; text was used.",)


@pytest.mark.parametrize("given", [{}, {"use_gpt4v": True, "gpt4v_input": "text"}])
def test_pictures_that_are_not_asked_for_are_not_fetched(given: dict[str, Any]) -> None:
    unseen = Overrides(top=3, **given)
    found, (body,) = over(SHOWN, lambda i: i.search(User(), "x", unseen), pictures=painted)

    assert body["select"] == SELECT
    assert found.notes == ()
    assert not any(source.image for source in found.sources)


def test_without_a_store_of_pictures_a_note_says_so() -> None:
    found, (body,) = over(SHOWN, lambda index: index.search(User(), "x", SEEING))

    assert body["select"] == SELECT
    assert [note.split()[0] for note in found.notes] == ["use_gpt4v"]
