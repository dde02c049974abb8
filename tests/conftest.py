"""The servers that the HTTP tests run over."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.servers import OBEYING, Server, serving

WITHOUT_HOST = "FUNCTIONS_HOST is not set: the same tests ran over the dev server"
HOSTS = [
    "dev",
    pytest.param(
        "functions",
        marks=pytest.mark.skipif(not os.environ.get("FUNCTIONS_HOST"), reason=WITHOUT_HOST),
    ),
]


@pytest.fixture(scope="session", params=HOSTS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which server: "dev", or "functions" where there is one."""
    return str(request.param)


@pytest.fixture(scope="session")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app with a model that takes its orders from the question."""
    with serving(kind, tmp_path_factory.mktemp("log"), OBEYING) as running:
        yield running
