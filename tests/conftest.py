"""The servers that the HTTP tests run over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import hypothesis
import pytest

from tests.support.azurite import AzuriteHome, azurite, make_home
from tests.support.isolation import isolate, limit_trust
from tests.support.servers import COMMAND_MODEL, HOSTS, SIGN_IN, Server, run_server

# What starts servers, programs or make, and the tests of the clients of Azure that take longest:
# `make test-all` runs it, `make test` does not.
SLOW = (
    "tests/e2e/",
    "tests/integration/test_acl_check.py",
    "tests/integration/test_azure_search.py",
    "tests/integration/test_azure_target.py",
    "tests/integration/test_azure_uploads.py",
    "tests/integration/test_blob_upload_runs.py",
    "tests/integration/test_blob_uploads.py",
    "tests/integration/test_blobs.py",
    "tests/integration/test_corpus.py",
    "tests/integration/test_cosmos.py",
    "tests/integration/test_identity.py",
    "tests/integration/test_indexed_files.py",
    "tests/integration/test_ingest_access_lists.py",
    "tests/integration/test_ingest_azure.py",
    "tests/integration/test_ingest_blobs.py",
    "tests/integration/test_ingest_cli.py",
    "tests/integration/test_memory_file.py",
    "tests/integration/test_openai_files.py",
    "tests/integration/test_request_provider.py",
    "tests/integration/test_sandbox.py",
    "tests/integration/test_sqlite_target.py",
    "tests/integration/test_stalls.py",
    "tests/integration/test_upload_functions.py",
    "tests/integration/test_upload_requests.py",
    "tests/template/test_bench.py",
    "tests/template/test_growth.py::test_time_of_a_request",
    "tests/template/test_hook.py",
    "tests/template/test_isolation.py",
    "tests/template/test_package.py::test_deployed_distributions",
    "tests/template/test_package.py::test_unpacked_package_answers",
    "tests/template/test_parts.py::test_rest",
    "tests/template/test_parts.py::test_order",
    "tests/template/test_sign_in.py",
)
# A minute each: started last, one of them would leave the other cores idle.
LONGEST = ("tests/template/test_parts",)
# They need a browser, and a language model: `make test-browser` and `make test-model` run them.
collect_ignore = [] if os.environ.get("TEST_BROWSER") else ["browser"]
collect_ignore += [] if os.environ.get("TEST_MODEL") else ["model"]
collect_ignore += [] if os.environ.get("TEST_OPEN_WEBUI") else ["front_ends"]
# Busy machines are slow: no test of Hypothesis has a time limit.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_sessionstart() -> None:
    """Isolate the tests, and let Ctrl+C reach what they start: a background job ignores it."""
    isolate(os.environ)
    limit_trust(os.environ)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, before `-m` selects; begin with what takes longest."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which servers the HTTP tests ran over, and whether slow tests were left out."""
    if "functions" not in HOSTS:
        line = "The HTTP tests ran over the dev server alone: FUNCTIONS_HOST is not set."
        terminalreporter.write_line(line)
    if terminalreporter.config.option.markexpr == "not slow":
        terminalreporter.write_line("The slow tests were left out: `make test-all` runs them.")


@pytest.fixture(scope="session", params=HOSTS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which server: "dev", or "functions" where there is one."""
    return str(request.param)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts a server of each kind once, whatever the order of the tests."""
    with ExitStack() as stack:

        @cache
        def start(kind: str, memory: bool = False) -> Server:
            folder = tmp_path_factory.mktemp("log")
            more = {**SIGN_IN, "MEMORY_FILE": str(folder / "memory.db")} if memory else {}
            return stack.enter_context(run_server(kind, folder, {**COMMAND_MODEL, **more}))

        yield start


@pytest.fixture(scope="session")
def server(kind: str, servers: Callable[..., Server]) -> Server:
    """The app with a model that takes its orders from the question."""
    return servers(kind)


@pytest.fixture(scope="session")
def memory_server(kind: str, servers: Callable[..., Server]) -> Server:
    """The same with a memory, for people who sign in."""
    return servers(kind, memory=True)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> AzuriteHome:
    """A folder that makes a machine trust Azurite, and be signed in there."""
    return make_home(tmp_path_factory.mktemp("storage"))


@pytest.fixture(scope="module")
def account(home: AzuriteHome) -> Iterator[str]:
    """The address of a storage account in Azurite."""
    with azurite(home) as url:
        yield url
