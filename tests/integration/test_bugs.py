"""A bug of the app behind an adapter stays a bug: no service and no file is blamed for it."""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Any

import pytest

import shared.files.blobs
import shared.memory.cosmos.client
import shared.memory.sqlite.connection
import shared.models.openai.client
import shared.retrieval.azure_search.client
import shared.retrieval.sqlite.connections
from shared.azure.errors import map_errors, map_malformed_response
from shared.domain.errors import Misconfigured, Unavailable
from shared.domain.overrides import Overrides
from shared.memory.cosmos.items import ContainerLocation, CosmosContainer
from shared.retrieval.sqlite.retriever import SqliteRetriever
from shared.retrieval.sqlite.schema import parse_rows
from tests.support.azurite import AzuriteCredential
from tests.support.fake_cosmos import CONTAINER, DATABASE, run_cosmos
from tests.support.retrievers import passage
from tests.support.servers import ROOT

ADAPTERS = ("azure", "files", "memory", "models", "retrieval")
BUGS = (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError)
GENERIC = {kind.__name__ for kind in (*BUGS, ArithmeticError, Exception, LookupError)}
# What parses the answer of a driver, and nothing else.
PARSERS = {each.__name__ for each in [map_malformed_response, parse_rows]}

storage = partial(map_errors, "storage", shared.files.blobs.map_status)
index = shared.retrieval.sqlite.connections.map_errors
MAPPINGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "storage": storage,
    "search": shared.retrieval.azure_search.client.map_errors,
    "cosmos": shared.memory.cosmos.client.map_errors,
    "memory file": shared.memory.sqlite.connection.map_errors,
    "index file": index,
    "model": lambda: shared.models.openai.client.map_errors("m", ""),
}


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("name", MAPPINGS)
def test_a_bug_is_not_mapped_to_an_error_of_a_service(name: str, bug: type[Exception]) -> None:
    with pytest.raises(bug), MAPPINGS[name]():
        raise bug("mine")


def mapping_functions() -> Iterator[tuple[str, set[str]]]:
    """Yield each function of the adapters that maps what its block raises, and what it catches."""
    for path in (path for name in ADAPTERS for path in (ROOT / "shared" / name).rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                managers = {each.id for each in function.decorator_list if hasattr(each, "id")}
                if managers & {"contextmanager", "asynccontextmanager"}:
                    yield function.name, caught_names(function)


def caught_names(function: ast.AST) -> set[str]:
    handlers = [each for each in ast.walk(function) if isinstance(each, ast.ExceptHandler)]
    kinds = [kind for each in handlers if each.type for kind in ast.walk(each.type)]
    return {kind.id for kind in kinds if isinstance(kind, ast.Name)}


def test_only_parsers_of_answers_catch_what_a_bug_raises() -> None:
    assert {name for name, caught in mapping_functions() if caught & GENERIC} == PARSERS


@pytest.mark.part("blob-files", "cosmos", "embedded-index", "memory-file")
def test_mapping_functions_are_found() -> None:
    assert len([name for name, caught in mapping_functions() if caught]) > len(MAPPINGS)


@pytest.mark.parametrize("kind", [AttributeError, KeyError, TypeError, ValueError])
def test_a_malformed_response_is_an_error_of_its_service(kind: type[Exception]) -> None:
    with pytest.raises(Unavailable) as failure, storage(), map_malformed_response():
        raise kind("theirs")

    assert failure.value.cause == "storage: MalformedResponse"


def test_a_row_that_cannot_be_parsed_is_damage_of_the_index() -> None:
    with pytest.raises(Misconfigured) as failure, index(), parse_rows():
        raise KeyError("theirs")

    assert "the file is damaged" in str(failure.value.cause)


class BuggyUser:
    """A user whose groups cannot be read, by a bug of the app."""

    oid = "anna"

    @property
    def groups(self) -> tuple[str, ...]:
        raise KeyError("mine")


def test_a_bug_in_a_search_does_not_blame_the_index() -> None:
    user: Any = BuggyUser()
    overrides = Overrides(use_groups_security_filter=True)
    with closing(SqliteRetriever([passage("a.md", 1, "Dental care.")])) as retriever:
        for call in (
            retriever.search(user, "dental", overrides),
            retriever.readable(user, "a.md", overrides),
            retriever.list_files(user, overrides, "", 10),
        ):
            with pytest.raises(KeyError):
                asyncio.run(call)


def test_a_bug_within_an_operation_does_not_blame_cosmos() -> None:
    async def work(url: str) -> None:
        location = ContainerLocation(url, DATABASE, CONTAINER)
        container = CosmosContainer(location, AzuriteCredential(), 10, time.time)
        try:
            async with container.owner("anna") as partition:
                item = await partition.read("none") or {}
                item["mine"]
        finally:
            await container.close()

    with run_cosmos() as fake, pytest.raises(KeyError):
        asyncio.run(work(fake.url))
