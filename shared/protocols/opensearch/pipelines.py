"""Search pipelines: stored beside the conversations, changed by whoever may administer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from shared.chat.errors import BadRequest, NotFound, Unsupported
from shared.http.json_encoding import Json
from shared.protocols.opensearch import search_json as wire
from shared.protocols.opensearch.memory_json import ACKNOWLEDGED
from shared.protocols.opensearch.request_context import RequestContext, SearchService
from shared.protocols.opensearch.search_json import Pipeline

DEFAULT = "default"
NAME = re.compile(r"(?![_.])[\w.-]{1,100}")
LONGEST_SETTING = 200  # characters of the name of one
# The first steps of the document: nothing has to be turned on here.
FEATURES = ("memory_feature_enabled", "rag_pipeline_feature_enabled")
CONFIGURED = (
    "Models are configured in the settings of the deployment (AZURE_OPENAI_CHAT_DEPLOYMENT, "
    "OPENAI_CHAT_MODEL): there are no connectors, model groups, tasks or agents. A pipeline's "
    "model_id is the name of the configured model."
)


async def defined(store: SearchService, name: str) -> Json:
    """The definition of a name: a stored one before the one that the settings make.

    Raises NotFound.
    """
    found = await store.memory.pipelines.get(name) if store.memory else None
    if found is not None:
        return dict(found)
    if name == DEFAULT:
        return wire.definition(store.default)
    raise _missing(name)


async def named(store: SearchService, name: str) -> Pipeline:
    """The pipeline of a name. Raises NotFound."""
    return wire.pipeline(await defined(store, name))


async def put(asked: RequestContext) -> Json:
    """Store a pipeline."""
    store, name = asked.store, _writable(asked)
    processor = wire.pipeline(asked.body)
    check_model(store, processor.model_id, "model_id")
    if not NAME.fullmatch(name):
        raise BadRequest(
            "the name of a pipeline has 1 to 100 letters, digits, dots, hyphens and underscores, "
            "and does not begin with a dot or an underscore"
        )
    await store.kept.pipelines.put(name, wire.definition(processor))
    return ACKNOWLEDGED


async def get(asked: RequestContext) -> Json:
    """One pipeline, by its name."""
    name = asked.call.path
    return {name: await defined(asked.store, name)}


async def every(asked: RequestContext) -> Json:
    """Every pipeline."""
    store = asked.store
    stored = await store.memory.pipelines.all() if store.memory else {}
    return {DEFAULT: wire.definition(store.default), **stored}


async def delete(asked: RequestContext) -> Json:
    """Remove a pipeline; the one that the settings make comes to light again."""
    name = _writable(asked)
    if not await asked.store.kept.pipelines.delete(name):
        raise _missing(name)
    return ACKNOWLEDGED


async def settings(asked: RequestContext) -> Json:
    """Turn on what is always on."""
    asked.store.access.check_admin(asked.call.headers)
    told: dict[str, Json] = {"persistent": {}, "transient": {}}
    for scope, given in asked.body.items():
        if scope not in told or not isinstance(given, dict):
            raise BadRequest(f"{scope[:100]}: must be `persistent` or `transient`, an object")
        for name, value in flat(given):
            known = name.removeprefix("plugins.ml_commons.") in FEATURES
            if not known or str(value).lower() != "true":
                raise BadRequest(f"{name[:100]}: cannot be set here, but for {', '.join(FEATURES)}")
            told[scope][name] = value
    if not any(told.values()):
        raise BadRequest(f"nothing is to be set: {', '.join(FEATURES)} can be")
    return ACKNOWLEDGED | told


def flat(given: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their whole names, however they were nested."""
    for name, value in given.items():
        whole = f"{prefix}{name}"
        if isinstance(value, dict) and value and len(whole) <= LONGEST_SETTING:
            yield from flat(value, f"{whole}.")
        else:
            yield whole, value


async def models(_asked: RequestContext) -> Json:
    """Models are made elsewhere."""
    raise Unsupported(CONFIGURED)


def check_model(store: SearchService, name: str, field: str) -> None:
    """Raise BadRequest where a model is none of those that are configured."""
    configured = store.engine.model.name
    if name != configured:
        raise BadRequest(f"is not configured here: the model is {configured}", field=field)


def _writable(asked: RequestContext) -> str:
    """The name of the pipeline that is to be changed. Raises Unauthorized, Forbidden."""
    asked.store.access.check_admin(asked.call.headers)
    return asked.call.path


def _missing(name: str) -> NotFound:
    return NotFound(f"Pipeline [{name}] not found")
