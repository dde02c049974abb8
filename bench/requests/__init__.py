"""The requests of every route that reads a body, each with its lists at any length.

A module here may have `list_endpoints` of a protocol; `WITHOUT_BODY`, the routes that refuse each
call whatever its body is; `OTHER_MODELS`, which are in no body; `CONFIGS` of the service that
answers; and `store_chain`, requests that refer to stored turns. Lists come from the models
that parse a request: a new field needs no line. What a parser reads by hand is described here.
`uncovered_models` and `uncovered_routes` name what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules

from pydantic import BaseModel

from bench.requests.endpoint import Endpoint
from bench.schemas import models_of
from shared.protocols import message_json
from shared.protocols.exchange import EVERY_METHOD, Route

NAMES = sorted(module.name for module in iter_modules(__path__) if module.name != "endpoint")
PROTOCOLS = [import_module(f"{__name__}.{name}") for name in NAMES]
ENDPOINTS: tuple[Endpoint, ...] = tuple(
    endpoint for protocol in PROTOCOLS for endpoint in getattr(protocol, "list_endpoints", tuple)()
)
WITHOUT_BODY = {path for protocol in PROTOCOLS for path in getattr(protocol, "WITHOUT_BODY", ())}
OTHER_MODELS = {  # and a base
    message_json.ContentPart,
    *(model for protocol in PROTOCOLS for model in getattr(protocol, "OTHER_MODELS", ())),
}
METHODS = ("POST", "PUT", "PATCH")  # those with a body


def uncovered_routes(routes: Mapping[str, Route], endpoints: Iterable[Endpoint]) -> set[str]:
    """Return the routes that read a body and whose handler no endpoint calls, by their methods."""
    known = {(each.method, routes[each.route].handler) for each in endpoints}
    known |= {(method, routes[path].handler) for path in WITHOUT_BODY for method in METHODS}
    return {
        f"{method} {path}"
        for path, route in routes.items()
        for method in (METHODS[:1] if route.methods == EVERY_METHOD else METHODS)
        if method in route.methods and (method, route.handler) not in known
    }


def uncovered_models(
    models: Iterable[type[BaseModel]], endpoints: Iterable[Endpoint]
) -> set[type[BaseModel]]:
    """Return the models of the protocols that are in no endpoint's schema."""
    known = frozenset(OTHER_MODELS).union(*(models_of(each.schema) for each in endpoints))
    return {each for each in models if each.__module__.startswith("shared.protocols")} - known


def subclasses(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models that are derived from one, at any distance."""
    for each in model.__subclasses__():
        yield each
        yield from subclasses(each)
