"""The list of providers, MODEL_PROVIDERS, and fake servers for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.flavors import FLAVORS
from tests.support.servers import FAKE_SEARCH
from tests.support.upstream import Server, run_upstream

REMOTE = {"service_source": "remote"}


def provider_entry(flavor: str, server: Server, **more: Any) -> dict[str, Any]:
    """An available provider of the list, named by its flavor, with one model."""
    defaults = {
        "provider_name": flavor,
        "service_name": "chat",
        "url": server.url + FLAVORS[flavor].PATH,
        "flavor": flavor,
        "status": 1,
        "models": ["m"],
    }
    return defaults | more


def provider_settings(*entries: Mapping[str, Any], **more: str) -> dict[str, str]:
    """Settings with a list of providers."""
    return {**FAKE_SEARCH, "MODEL_PROVIDERS": json.dumps(entries), **more}


@contextmanager
def run_gateways(*flavors: str) -> Iterator[list[Any]]:
    """Runs a server of each flavor; they share one list of requests in order."""
    if not flavors:
        yield []
        return
    with run_upstream(FLAVORS[flavors[0]].Server()) as first, run_gateways(*flavors[1:]) as rest:
        first.order = rest[0].order if rest else first.order
        yield [first, *rest]
