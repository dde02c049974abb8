"""Search pipelines: stored beside the conversations, changed by whoever may administer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from shared.chat.errors import BadRequest, NotFound, Unsupported
from shared.http.json_encoding import Json
from shared.protocols.exchange import Exchange
from shared.protocols.opensearch import search_json as wire
from shared.protocols.opensearch.handler import get_memory
from shared.protocols.opensearch.memory_json import ACKNOWLEDGED
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


async def find_pipeline(exchange: Exchange, name: str) -> Pipeline:
    """The pipeline of a name. Raises NotFound."""
    return wire.pipeline(await _find_definition(exchange, name))


async def _find_definition(exchange: Exchange, name: str) -> Json:
    """The definition of a name: a stored one before the one that the settings make.

    Raises NotFound.
    """
    memory = exchange.app.memory
    stored = await memory.pipelines.get(name) if memory else None
    if stored is not None:
        return dict(stored)
    if name == DEFAULT:
        return _default_definition(exchange)
    raise _missing(name)


def _default_definition(exchange: Exchange) -> Json:
    """The definition that the settings make."""
    processor = Pipeline(
        description="The answer to the question, made from the settings of the deployment.",
        model_id=exchange.engine.model.name,
        context_field_list=["text"],
        system_prompt=exchange.engine.prompts.pipeline,
    )
    return wire.definition(processor)


async def put(exchange: Exchange) -> Json:
    """Store a pipeline."""
    name = _check_writable(exchange)
    processor = wire.pipeline(exchange.body)
    check_model(exchange, processor.model_id, "model_id")
    if not NAME.fullmatch(name):
        raise BadRequest(
            "the name of a pipeline has 1 to 100 letters, digits, dots, hyphens and underscores, "
            "and does not begin with a dot or an underscore"
        )
    await get_memory(exchange).pipelines.put(name, wire.definition(processor))
    return ACKNOWLEDGED


async def get(exchange: Exchange) -> Json:
    """One pipeline, by its name."""
    name = exchange.call.path
    return {name: await _find_definition(exchange, name)}


async def every(exchange: Exchange) -> Json:
    """Every pipeline."""
    memory = exchange.app.memory
    stored = await memory.pipelines.all() if memory else {}
    return {DEFAULT: _default_definition(exchange), **stored}


async def delete(exchange: Exchange) -> Json:
    """Delete a stored pipeline; a default one is then the one that the settings make."""
    name = _check_writable(exchange)
    if not await get_memory(exchange).pipelines.delete(name):
        raise _missing(name)
    return ACKNOWLEDGED


async def settings(exchange: Exchange) -> Json:
    """Turn on what is always on."""
    exchange.app.access.check_admin(exchange.call.headers)
    applied: dict[str, Json] = {"persistent": {}, "transient": {}}
    for scope, values in exchange.body.items():
        if scope not in applied or not isinstance(values, dict):
            raise BadRequest(f"{scope[:100]}: must be `persistent` or `transient`, an object")
        for name, value in flat(values):
            is_known = name.removeprefix("plugins.ml_commons.") in FEATURES
            if not is_known or str(value).lower() != "true":
                raise BadRequest(f"{name[:100]}: cannot be set here, but for {', '.join(FEATURES)}")
            applied[scope][name] = value
    if not any(applied.values()):
        raise BadRequest(f"nothing is to be set: {', '.join(FEATURES)} can be")
    return ACKNOWLEDGED | applied


def flat(values: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their full names, however they were nested."""
    for name, value in values.items():
        whole = f"{prefix}{name}"
        if isinstance(value, dict) and value and len(whole) <= LONGEST_SETTING:
            yield from flat(value, f"{whole}.")
        else:
            yield whole, value


async def models(_exchange: Exchange) -> Json:
    """Models are configured in the settings."""
    raise Unsupported(CONFIGURED)


def check_model(exchange: Exchange, name: str, field: str) -> None:
    """Raise BadRequest where a model is none of those that are configured."""
    configured = exchange.engine.model.name
    if name != configured:
        raise BadRequest(f"is not configured here: the model is {configured}", field=field)


def _check_writable(exchange: Exchange) -> str:
    """The name of the pipeline that is to be changed. Raises Unauthorized, Forbidden."""
    exchange.app.access.check_admin(exchange.call.headers)
    return exchange.call.path


def _missing(name: str) -> NotFound:
    return NotFound(f"Pipeline [{name}] not found")
