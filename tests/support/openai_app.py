"""The app with an OpenAI client's key, over a fake Azure AI Search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.calls import CHAT_KEY
from tests.support.fake_search import FakeSearch
from tests.support.search_app import app
from tests.support.upstream import Upstream


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[tuple[FakeSearch, Upstream, str]]:
    more = {"CHAT_MODEL": "openai", "CHAT_API_KEY": CHAT_KEY, "ALLOW_CLIENT_FILTERS": "true"}
    with app(home, **more) as (search, model, client):
        yield search, model, str(client.base_url).rstrip("/")
