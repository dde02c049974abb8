"""The writer of Azure AI Search with the real SDK and a strict fake service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import azure.core.exceptions
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.concurrency import MAX_CONCURRENT_REQUESTS
from ingest.targets.azure_search.documents import MAX_ACTIONS, MAX_BYTES
from ingest.targets.azure_search.index_update import IndexSpec, Vectorizer
from ingest.targets.azure_search.retry import map_failure
from ingest.targets.azure_search.writer import AzureSearchWriter
from ingest.targets.index_writer import (
    UNFINISHED,
    Document,
    DocumentRejected,
    IndexUnavailable,
    RequestRejected,
)
from shared.azure.errors import NO_IDENTITY_MESSAGE
from shared.domain.events import decode_path, encode_path
from shared.retrieval.azure_search.index_fields import IndexFields
from tests.support.fake_index import FakeIndex
from tests.support.fake_service import FakeIndexService
from tests.support.search_writer import (
    UNUSED_PATH,
    RecordingRetry,
    document,
    run,
    run_service,
    update_index,
)
from tests.support.upstream import (
    Exchange,
    Step,
    error_response,
    http_chunk,
    json_response,
    response_head,
)

Folder = Mapping[str, Document]
Docs = dict[str, dict[str, Any]]

A = document("a.md")
CHANGED = document("a.md", "2", "p0-2 p0-4")  # another first passage, others gone and come
PLAN = document("plans/plan.md", "1", "p0-1")
EMPTY: Folder = {}


def docs(running: FakeIndexService) -> Docs:
    return running.indexes["docs"].docs


def fresh(folder: Folder) -> Docs:
    """What an index holds after one run that nothing disturbs."""
    with run_service() as running:
        run(running, partial(update_index, folder=folder))
        return docs(running)


def definition(index: FakeIndex) -> dict[str, str]:
    """Each field's type, and its traits by their first letters (retrievable, key, ...)."""
    traits = "retrievable key searchable filterable Sortable facetable:x".split()
    letters = {
        trait.partition(":")[0].lower(): trait[-1 if ":" in trait else 0] for trait in traits
    }
    return {
        one["name"]: one["type"] + " " + "".join(letters[name] for name in letters if one[name])
        for one in index.definition["fields"]
    }


def test_index_is_created_with_all_fields() -> None:
    maker = Vectorizer("https://mine.openai.azure.com", "embedding", "text-embedding-3-small")
    with run_service() as running:
        run(
            running,
            AzureSearchWriter.fingerprints,
            index_spec=IndexSpec("docs", IndexFields(), 1536, maker),
        )
        index = running.indexes["docs"]
    vectors = index.definition["vectorSearch"]
    (ranking,) = index.definition["semantic"]["configurations"]

    assert definition(index) == {
        "id": "Edm.String rksfS",
        "content": "Edm.String rs",
        "sourcepage": "Edm.String r",
        "sourcefile": "Edm.String rsf",
        "category": "Edm.String rfx",
        "oids": "Collection(Edm.String) rf",
        "groups": "Collection(Edm.String) rf",
        "image": "Edm.String r",
        "fingerprint": "Edm.String rf",
        "parent": "Edm.String rf",
        "embedding": "Collection(Edm.Single) s",
    }
    assert index.field("embedding")["dimensions"] == 1536
    assert index.field("embedding")["stored"]  # or a merge of other fields would lose it
    assert vectors["algorithms"][0]["hnswParameters"] == {"metric": "cosine"}
    assert vectors["compressions"][0]["scalarQuantizationParameters"] == {
        "quantizedDataType": "int8"
    }
    assert vectors["vectorizers"] == [
        {
            "name": "openai",
            "kind": "azureOpenAI",
            "azureOpenAIParameters": {
                "resourceUri": "https://mine.openai.azure.com",
                "deploymentId": "embedding",
                "modelName": "text-embedding-3-small",
            },
        }
    ]
    assert ranking == {
        "name": "default",
        "prioritizedFields": {
            "titleField": {"fieldName": "sourcefile"},
            "prioritizedContentFields": [{"fieldName": "content"}],
        },
    }


def test_vector_field_is_added_later() -> None:
    texts = Document("a.md", "1", A.passages)
    with run_service() as running:
        run(
            running,
            partial(update_index, folder={"a.md": texts}),
            index_spec=IndexSpec("docs", IndexFields()),
        )
        run(running, partial(update_index, folder={"a.md": A}))
        run(
            running,
            partial(update_index, folder={"a.md": texts}),
            index_spec=IndexSpec("docs", IndexFields()),
        )

    assert "dimensions" in running.indexes["docs"].field("embedding")
    assert [doc["embedding"] for doc in docs(running).values()] == [None] * 3


def test_existing_index_keeps_its_own_fields() -> None:
    key = {"name": "id", "type": "Edm.String", "key": True, "filterable": True, "sortable": True}
    key |= {"searchable": True, "analyzer": "keyword"}
    pages = {"name": "pages", "type": "Edm.Int32", "filterable": True}
    profiles: dict[str, Any] = {"scoringProfiles": [{"name": "mine"}]}
    with run_service() as running:
        index = {"name": "docs", "fields": [key, pages], **profiles}
        running.indexes["docs"] = FakeIndex({"name": "docs", "fields": []})
        running.indexes["docs"].update(index)
        run(running, partial(update_index, folder={"a.md": A}))
        docs(running)["a-md-p0-2"]["pages"] = 7
        run(running, partial(update_index, folder={"a.md": CHANGED}))
        definition = running.indexes["docs"].definition

    assert [request.method for request in running.requests].count("PUT") == 1
    assert [one["name"] for one in definition["fields"]][:3] == ["id", "pages", "content"]
    assert definition["scoringProfiles"] == profiles["scoringProfiles"]
    assert docs(running)["a-md-p0-2"]["pages"] == 7


def test_index_with_other_dimensions_is_rejected() -> None:
    with run_service() as running:
        run(running, AzureSearchWriter.fingerprints)
        with pytest.raises(
            IndexUnavailable, match=r"vectors of 2 numbers.* makes 3: name another index"
        ):
            run(
                running,
                AzureSearchWriter.fingerprints,
                index_spec=IndexSpec("docs", IndexFields(), 3),
            )


def test_index_with_incompatible_field_is_rejected() -> None:
    bare = {"name": "docs", "fields": [{"name": "id", "type": "Edm.String", "key": True}]}
    with run_service() as running:
        running.indexes["docs"] = FakeIndex({"name": "docs", "fields": []})
        running.indexes["docs"].update(bare)
        with pytest.raises(
            IndexUnavailable, match="The field id of the index docs is not searchable"
        ):
            run(running, AzureSearchWriter.fingerprints)


def test_field_names_come_from_settings() -> None:
    shape = IndexSpec("docs", IndexFields(id="key", content="chunk", oids="users"), 2)
    with run_service() as running:
        run(running, partial(update_index, folder={"a.md": A}), index_spec=shape)
    (first, *_) = docs(running).values()

    assert {"key", "chunk", "users"} <= first.keys()
    assert not {"id", "content", "oids"} & first.keys()


def test_only_the_first_passage_has_the_fingerprint() -> None:
    board = document("board/x.md", "1", "p0-1 p0-2", oids=("o",), groups=("g", "h"))
    with run_service() as running:
        run(running, partial(update_index, folder={"board/x.md": board}))
    first, second = docs(running).values()

    assert first == {
        "id": "board-x-md-p0-1",
        "content": "board/x.md says p0-1 in version 1",
        "sourcepage": "board/x.md",
        "sourcefile": "board/x.md",
        "category": "board",
        "oids": ["o"],
        "groups": ["g", "h"],
        "image": None,
        "fingerprint": "print-of-1",
        "parent": None,
        "embedding": [1.0, 0.0],
    }
    assert second["fingerprint"] is None


def test_images_are_stored_by_passage_id_with_limited_concurrency() -> None:
    stored, now, most = dict[str, bytes](), 0, 0

    async def store(key: str, picture: bytes) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        stored[key], now = picture, now - 1

    file = document("a.md", "1", " ".join(f"p0-{n}" for n in range(20)), image=b"PNG")
    with run_service() as running:
        run(running, partial(update_index, folder={"a.md": file}), store=store)

    assert stored == dict.fromkeys(docs(running), b"PNG")
    assert {doc["image"] for doc in docs(running).values()} == set(stored)
    assert 1 < most <= MAX_CONCURRENT_REQUESTS


def test_unchanged_folder_writes_nothing() -> None:
    with run_service() as running:
        run(running, partial(update_index, folder={"a.md": A, "plans/plan.md": PLAN}))
        writes = len(running.requests)
        run(running, partial(update_index, folder={"a.md": A, "plans/plan.md": PLAN}))

    assert len(running.requests) == writes + 2  # the index, and its marks


@pytest.mark.parametrize("name", ["a [draft] #1 100%.md", "%5B.md", "o'neill/ü.md", "a%2525.md"])
def test_names_survive_the_round_trip(name: str) -> None:
    inside = replace(A.passages[0], sourcefile=encode_path(name))
    odd = Document(name, "print", (inside,))
    with run_service() as running:
        run(running, partial(update_index, folder={name: odd}))
        known = run(running, AzureSearchWriter.fingerprints)
        run(running, partial(update_index, folder=EMPTY))

    assert known == {name: "print"}
    assert decode_path(encode_path(name)) == name
    assert docs(running) == {}


def test_fingerprints_are_paged() -> None:
    with run_service() as running:
        run(running, AzureSearchWriter.fingerprints)
        empty = dict.fromkeys(definition(running.indexes["docs"]))
        for n in range(2500):
            row = {"id": f"k{n}", "sourcefile": f"{n}.md", "fingerprint": f"print {n}"}
            docs(running)[f"k{n}"] = empty | row
        known = run(running, AzureSearchWriter.fingerprints)

    assert known == {f"{n}.md": f"print {n}" for n in range(2500)}


def test_restricted_files_are_paged() -> None:
    name = "o'neill [1].md"
    passages = (replace(one, sourcefile=encode_path(name), oids=("o",)) for one in A.passages)
    restricted = Document(name, "print", tuple(passages))
    with run_service() as running:
        run(running, partial(update_index, folder={"plans/plan.md": PLAN, name: restricted}))
        first = docs(running)["a-md-p0-1"]
        first["oids"] = []  # as a run leaves it that broke off
        for n in range(2500):
            row = {"id": f"k{n}", "sourcefile": f"{n % 3}.md", "oids": [], "groups": ["g"]}
            docs(running)[f"k{n}"] = {**first, **row, "fingerprint": None}
        names = run(running, AzureSearchWriter.restricted_files)

    assert names == {name, "0.md", "1.md", "2.md"}


def test_restricted_files_of_a_missing_index_are_empty() -> None:
    with run_service() as running:
        names = run(running, AzureSearchWriter.restricted_files)

    assert names == set()
    assert running.indexes == {}


@pytest.mark.parametrize("has", [(), ("sourcefile",), ("sourcefile", "groups")], ids="-".join)
def test_restricted_files_use_existing_fields_only(has: tuple[str, ...]) -> None:
    key = {"name": "id", "type": "Edm.String", "key": True, "filterable": True, "sortable": True}
    texts = {"type": "Edm.String", "searchable": True, "filterable": True}
    lists = {"type": "Collection(Edm.String)", "filterable": True}
    fields = [{"name": name, **(lists if name == "groups" else texts)} for name in has]
    with run_service() as running:
        running.indexes["docs"] = FakeIndex({"name": "docs", "fields": []})
        running.indexes["docs"].update(
            {"name": "docs", "fields": [{**key, "searchable": True}, *fields]}
        )
        docs(running)["k"] = {"id": "k", "sourcefile": "a.md", "groups": ["g"]}
        names = run(running, AzureSearchWriter.restricted_files)

    assert names == ({"a.md"} if "groups" in has else set())
    assert {request.method for request in running.requests} <= {"GET", "POST"}


def test_restricted_files_reject_incompatible_fields() -> None:
    key = {"name": "id", "type": "Edm.String", "key": True, "filterable": True, "sortable": True}
    groups = {"name": "groups", "type": "Collection(Edm.String)"}
    with run_service() as running:
        running.indexes["docs"] = FakeIndex({"name": "docs", "fields": []})
        running.indexes["docs"].update(
            {"name": "docs", "fields": [{**key, "searchable": True}, groups]}
        )
        with pytest.raises(
            IndexUnavailable, match="field groups of the index docs is not filterable"
        ):
            run(running, AzureSearchWriter.restricted_files)


# What a run may find and what it is to make of it, in as many requests as one run has.
CHANGES: list[tuple[Folder, Folder]] = [
    ({}, {"a.md": A, "plans/plan.md": PLAN}),
    ({"a.md": A}, {"a.md": CHANGED}),
    ({"a.md": CHANGED, "plans/plan.md": PLAN}, {"plans/plan.md": PLAN}),
    ({"a.md": A, "plans/plan.md": PLAN}, {"a.md": document("a.md", "3", "p1-1")}),
]


@pytest.mark.parametrize("cut", ["before", "half", "after"])
@pytest.mark.parametrize(("first", "second"), CHANGES)
def test_next_run_repairs_an_interrupted_one(first: Folder, second: Folder, cut: str) -> None:
    """Whatever comes after it: what was to be made, what was there before, or something else."""
    after = [second, first, {"a.md": document("a.md", "4", "p0-1 p0-4")}]
    expected = [fresh(folder) for folder in after]
    for place, third in product(range(1, 40), (0, 1, 2)):
        with run_service(cut=cut) as running:
            run(running, partial(update_index, folder=first))
            running.cut_at = len(running.requests) + place
            ended = broken(running, second)
            if len(running.requests) < running.cut_at:
                break
            run(running, partial(update_index, folder=after[third]))

            assert docs(running) == expected[third], (place, third)
    assert ended
    assert place > 3


def broken(running: FakeIndexService, folder: Folder) -> bool:
    """Whether a run came to its end. (The transport itself asks a GET twice.)"""
    try:
        run(running, partial(update_index, folder=folder))
    except DocumentRejected:
        return False
    return True


IDS = ["p0-1", "p0-1 p0-2 p0-3", "p0-2 p0-3", "p1-1 p2-1", "p2-1 p0-1 p0-9"]
VERSIONS = st.tuples(st.sampled_from("12"), st.sampled_from(IDS))
FOLDERS = st.dictionaries(st.sampled_from(["a.md", "b/b.md", "c.md"]), VERSIONS, max_size=3)
CUTS = st.tuples(st.integers(1, 16), st.sampled_from(["before", "half", "after"]))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(FOLDERS, CUTS), max_size=4), FOLDERS)
def test_complete_run_repairs_any_interrupted_runs(
    runs: list[tuple[dict[str, tuple[str, str]], tuple[int, str]]],
    last: dict[str, tuple[str, str]],
) -> None:
    def folder(versions: dict[str, tuple[str, str]]) -> Folder:
        # The ids are part of what a fingerprint stands for.
        return {n: document(n, version + ids, ids) for n, (version, ids) in versions.items()}

    with run_service() as running:
        for files, (place, cut) in runs:
            running.cut_at, running.cut = len(running.requests) + place, cut
            broken(running, folder(files))
        running.cut_at = 0
        run(running, partial(update_index, folder=folder(last)))

        assert docs(running) == fresh(folder(last))


def test_file_of_an_interrupted_run_is_unfinished() -> None:
    with run_service() as running:
        run(running, partial(update_index, folder={"a.md": A}))
        running.cut_at = len(running.requests) + 5
        assert not broken(running, {"a.md": CHANGED})

        assert run(running, AzureSearchWriter.fingerprints) == {"a.md": UNFINISHED}


def test_large_file_is_sent_in_batches_with_limited_concurrency() -> None:
    big = document("big.csv", "1", " ".join(f"p0-{n}" for n in range(40_000)))
    with run_service() as running:
        run(running, partial(update_index, folder={"big.csv": big}))
    sizes = [len(one.body["value"]) for one in running.requests if "search.index" in one.path]

    assert len(docs(running)) == 40_000
    first, *batches, last = sizes  # of which several are on their way at once
    assert (first, last) == (1, 1)
    assert sorted(batches) == [999, *[MAX_ACTIONS] * 39]
    assert running.connections <= MAX_CONCURRENT_REQUESTS


# The transport's advice for a server: it would hold up other work. A run has none.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
def test_batches_are_within_the_request_limit() -> None:
    ids = " ".join(f"p0-{n}" for n in range(30))
    large = document("large.md", "\u4e2d" * 100_000, ids)
    with run_service() as running:
        run(running, partial(update_index, folder={"large.md": large}))
    lengths = [int(one.headers.get("content-length", 0)) for one in running.requests]

    assert len(docs(running)) == len(ids.split())
    assert MAX_BYTES / 2 < max(lengths) < MAX_BYTES * 1.1


def test_retry_after_is_obeyed() -> None:
    retry = RecordingRetry()
    plan = [
        error_response(429, {"Retry-After": "7"}),
        error_response(503, {"Retry-After": "31"}),
        error_response(503),
    ]
    with run_service(plan=plan) as running:
        run(running, partial(update_index, folder={"a.md": A}), retry.policy())

    assert docs(running) == fresh({"a.md": A})
    assert retry.waits[:2] == [7, 31]
    assert 0 < retry.waits[2] <= 4
    assert retry.messages[0] == "Azure AI Search: status 429; trying again in 7 s."


GARBAGE = [
    response_head(200, {"Content-Type": "application/json"}),
    http_chunk(b"<html>"),
    b"0\r\n\r\n",
]
CUT = [
    response_head(200, {"Content-Type": "application/json"}),
    http_chunk(b'{"value": ['),
    Exchange.reset,
]
FAILURES: list[Any] = [
    pytest.param([error_response(429)] * 3, IndexUnavailable, "too busy", 3, id="429"),
    pytest.param(
        [error_response(429, {"Retry-After": "301"})],
        IndexUnavailable,
        "too busy",
        1,
        id="a long wait",
    ),
    pytest.param([error_response(503)] * 3, IndexUnavailable, "too busy", 3, id="503"),
    pytest.param([[Exchange.reset]] * 6, IndexUnavailable, "did not answer", 6, id="reset"),
    pytest.param([[Exchange.stall]] * 3, IndexUnavailable, "did not answer", 3, id="stall"),
    pytest.param([CUT] * 3, IndexUnavailable, "did not answer", 3, id="cut"),
    pytest.param([GARBAGE] * 3, IndexUnavailable, "did not answer", 3, id="no JSON"),
    pytest.param([json_response(7)], IndexUnavailable, "did not answer", 1, id="another shape"),
    pytest.param(
        [error_response(401)], IndexUnavailable, "Search Index Data Contributor", 1, id="401"
    ),
    pytest.param(
        [error_response(403)], IndexUnavailable, "Search Service Contributor", 1, id="403"
    ),
    pytest.param(
        [error_response(400, code="Bad")], RequestRejected, r"\(400, code 'Bad'\)", 1, id="400"
    ),
]


async def read_and_close(target: AzureSearchWriter) -> None:
    """A connection that was given up says so to its peer, which takes a moment over TLS."""
    try:
        await target.fingerprints()
    finally:
        await asyncio.sleep(0.2)


@pytest.mark.parametrize(("plan", "kind", "words", "times"), FAILURES)
def test_permanent_failure_raises_and_next_run_works(
    plan: list[list[Step]], kind: type[DocumentRejected], words: str, times: int
) -> None:
    with run_service(plan=list(plan)) as running:
        with pytest.raises(DocumentRejected, match=words) as failed:
            run(running, read_and_close, RecordingRetry().policy(max_attempts=3, timeout=0.5))
        count = len(running.requests)
        run(running, partial(update_index, folder={"a.md": A}))

    assert type(failed.value) is kind
    assert count == times
    assert "upstream" not in str(failed.value)
    assert len(docs(running)) == 3


def test_role_assignments_are_waited_for() -> None:
    retry = RecordingRetry()
    with run_service(plan=[error_response(403)] * 4) as running:
        run(running, AzureSearchWriter.fingerprints, retry.policy(max_attempts=2, role_wait=60))

    assert retry.waits == [15] * 4
    assert retry.messages[0] == "Azure AI Search: status 403; trying again in 15 s."
    with (
        run_service(plan=[error_response(403)] * 5) as running,
        pytest.raises(IndexUnavailable, match="roles"),
    ):
        run(running, AzureSearchWriter.fingerprints, retry.policy(role_wait=60))


def test_no_request_without_sign_in() -> None:
    with run_service() as running, pytest.raises(IndexUnavailable) as failed:
        run(
            running,
            AzureSearchWriter.fingerprints,
            RecordingRetry().policy(role_wait=60),
            signed_in=False,
        )

    assert str(failed.value) == NO_IDENTITY_MESSAGE
    assert running.requests == []


def test_untrusted_certificate_is_not_retried() -> None:
    retry = RecordingRetry()
    with run_service() as running, pytest.raises(IndexUnavailable, match="certificate"):
        run(running, AzureSearchWriter.fingerprints, retry.policy(), trusted=False)

    assert retry.waits == []


def test_only_throttled_passages_are_sent_again() -> None:
    with run_service() as running:
        run(running, AzureSearchWriter.fingerprints)
        running.indexes["docs"].statuses = {"a-md-p0-2": [503, 429], "a-md-p0-3": [422]}
        run(running, partial(update_index, folder={"a.md": A}), RecordingRetry().policy())
    batches = [one.body["value"] for one in running.requests if "search.index" in one.path]

    assert docs(running) == fresh({"a.md": A})
    assert [len(batch) for batch in batches] == [1, 2, 2, 1, 1]


def test_rejected_passage_is_named_and_retried_next_run() -> None:
    with run_service() as running:
        run(running, AzureSearchWriter.fingerprints)
        running.indexes["docs"].statuses = {"a-md-p0-3": [400]}
        with pytest.raises(
            DocumentRejected, match=r"1 of 2 passages: a-md-p0-3 with status 400"
        ) as failed:
            run(running, partial(update_index, folder={"a.md": A}))
        known = run(running, AzureSearchWriter.fingerprints)
        run(running, partial(update_index, folder={"a.md": A}))

    assert "\n" not in str(failed.value)
    assert known == {"a.md": UNFINISHED}
    assert docs(running) == fresh({"a.md": A})


def test_oversized_passage_is_rejected() -> None:
    async def too_large(target: AzureSearchWriter) -> None:
        await target.fingerprints()
        running.plan.append(error_response(413))
        await target.put(PLAN, UNUSED_PATH)

    with run_service() as running, pytest.raises(DocumentRejected, match="too large"):
        run(running, too_large)


def test_file_with_two_marks_is_unfinished() -> None:
    with run_service() as running:
        run(running, partial(update_index, folder={"a.md": CHANGED}))
        docs(running)["left"] = docs(running)["a-md-p0-2"] | {"id": "left", "fingerprint": "older"}
        known = run(running, AzureSearchWriter.fingerprints)
        run(running, partial(update_index, folder={"a.md": CHANGED}))

    assert known == {"a.md": UNFINISHED}
    assert docs(running) == fresh({"a.md": CHANGED})


def test_remove_is_idempotent() -> None:
    async def twice(target: AzureSearchWriter) -> None:
        await target.fingerprints()
        await target.put(A, UNUSED_PATH)
        await target.put(PLAN, UNUSED_PATH)
        await target.remove("a.md")
        await target.remove("a.md")

    with run_service() as running:
        run(running, twice)

    assert docs(running) == fresh({"plans/plan.md": PLAN})


def test_sdk_errors_are_mapped() -> None:
    kinds = [k for k in list(vars(azure.core.exceptions).values()) if isinstance(k, type)]
    sdk: set[Any] = {k for k in kinds if issubclass(k, azure.core.exceptions.AzureError)}
    assert len(sdk) > 15
    kind: Any
    for kind in sdk | {TimeoutError, TypeError, ValueError}:
        raised = kind.__new__(kind)
        if issubclass(kind, azure.core.exceptions.HttpResponseError):
            raised.error = raised.response = raised.status_code = None

        assert str(map_failure(raised)).endswith((".", "?", "`"))
