"""Makes the checks of `/health`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from shared.bootstrap.clients import Clients
from shared.http.call import Json
from shared.models.router import Router
from shared.protocols.health import Component, Health, HealthCheck
from shared.retrieval.base import Retriever


def make_health(
    clients: Clients,
    router: Router,
    retriever: Retriever,
    stores: Mapping[str, Component | None] = MappingProxyType({}),
) -> Health:
    """Make the checks of the components in use. Only on a laptop it tells what the index holds:
    elsewhere anybody may ask.
    """
    on_laptop = clients.settings.on_laptop
    details = partial(_index_details, retriever) if on_laptop else None
    model = router.default
    checks = {
        "model": HealthCheck(model.name, model.ready),
        "index": HealthCheck(retriever.name, retriever.ready, details),
    }
    checks |= {
        kind: HealthCheck(it.name, it.ready) for kind, it in stores.items() if it is not None
    }
    for provider in router.other_providers:
        other = provider.get_model(None)
        checks[f"model of {provider.name}"] = HealthCheck(other.name, other.ready)
    if name := clients.embedding_model:
        checks["vectors"] = HealthCheck(name, clients.check_embedding)
    return Health(checks, shows_causes=on_laptop)


def _index_details(retriever: Retriever) -> Json:
    """Return what the index holds; empty if that is unknown. Raises ChatErrors."""
    statistics = retriever.statistics()
    return statistics.to_json() if statistics else {}
