"""AzureSearchRetriever against a fake index: readable files and the images of passages."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import errors
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.azure_search.retriever import AzureSearchRetriever
from shared.retrieval.base import MAX_IMAGES
from tests.support.azure_search import run_with_index
from tests.support.fake_search import document
from tests.support.search_app import DOCS, READERS, SELECT, USERS

BOTH = Overrides(top=50, use_oid_security_filter=True, use_groups_security_filter=True)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("user", [User(), *(User(oid, tuple(of)) for oid, of in USERS.values())])
def test_a_file_is_readable_by_who_may_find_a_passage_of_it(user: User, name: str) -> None:
    oids, groups = READERS[name]
    readable, (body,) = run_with_index(DOCS, lambda index: index.readable(user, f"{name}.md", BOTH))

    assert readable is (not oids + groups or user.oid in oids or bool({*user.groups} & {*groups}))
    assert body["filter"].endswith(f" and sourcefile eq '{name}.md'")
    assert (body["search"], body["select"], body["top"]) == ("*", "id", 1)


@pytest.mark.parametrize("name", ["nothing.md", "' or true or sourcefile eq 'public.md"])
def test_a_missing_file_is_not_readable(name: str) -> None:
    readable, _ = run_with_index(DOCS, lambda index: index.readable(User(), name, BOTH))

    assert readable is False


WITH_IMAGES = [document(f"d{n}", image=f"key-{n}" if n != 1 else None) for n in range(12)]
REQUEST_IMAGES = Overrides(top=12, use_gpt4v=True)


async def fetch_image(key: str) -> str | None:
    """A store of images that has lost one, and fails for another."""
    if key == "key-3":
        raise errors.Unavailable()
    return None if key == "key-4" else f"data:image/png;base64,{key}"


def test_the_first_images_are_attached_and_a_note_counts_missing_ones() -> None:
    result, (body,) = run_with_index(
        WITH_IMAGES, lambda i: i.search(User(), "x", REQUEST_IMAGES), fetch_image=fetch_image
    )
    with_image = [n for n, source in enumerate(result.sources) if source.image]

    assert body["select"] == f"{SELECT},image"
    assert with_image == [0, 2, 5, 6, 7, 8]
    assert len(with_image) == MAX_IMAGES - 2
    assert result.sources[2].image == "data:image/png;base64,key-2"
    assert result.notes == ("use_gpt4v: 2 of 8 images could not be fetched; text was used.",)


@pytest.mark.parametrize("options", [{}, {"use_gpt4v": True, "gpt4v_input": "text"}])
def test_images_that_are_not_requested_are_not_fetched(options: dict[str, Any]) -> None:
    overrides = Overrides(top=3, **options)
    result, (body,) = run_with_index(
        WITH_IMAGES, lambda i: i.search(User(), "x", overrides), fetch_image=fetch_image
    )

    assert body["select"] == SELECT
    assert result.notes == ()
    assert not any(source.image for source in result.sources)


def test_a_note_says_that_there_is_no_image_store() -> None:
    result, (body,) = run_with_index(
        WITH_IMAGES, lambda index: index.search(User(), "x", REQUEST_IMAGES)
    )

    assert body["select"] == SELECT
    assert [note.split()[0] for note in result.notes] == ["use_gpt4v"]


def test_statistics_say_whether_images_can_be_fetched() -> None:
    async def has_images(index: AzureSearchRetriever) -> bool:
        return index.statistics().has_images

    assert run_with_index(WITH_IMAGES, has_images, fetch_image=fetch_image)[0]
    assert not run_with_index(WITH_IMAGES, has_images)[0]
