"""Search pipelines: stored beside the conversations, changed by whoever may administer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, Field

from shared.domain.errors import BadRequest, NotFound
from shared.http.body import validate
from shared.http.call import Json
from shared.protocols.exchange import Exchange
from shared.protocols.opensearch.memory import get_memory

RAG = "retrieval_augmented_generation"  # the one processor that there is
OTHER_PHASES = ("request_processors", "phase_results_processors")
DEFAULT = "default"
NAME = re.compile(r"(?![_.])[\w.-]{1,100}")
MAX_TEXT_LENGTH = 20_000  # characters of each of a pipeline's texts
MAX_SETTING_LENGTH = 200  # characters of a setting's name
# The first steps of the document: nothing has to be turned on here.
FEATURES = ("memory_feature_enabled", "rag_pipeline_feature_enabled")
ACKNOWLEDGED: Json = {"acknowledged": True}


class Pipeline(BaseModel, strict=True, frozen=True):
    """The one processor of a pipeline."""

    tag: str | None = Field(default=None, max_length=MAX_TEXT_LENGTH)
    description: str = Field(max_length=MAX_TEXT_LENGTH)
    model_id: str = Field(min_length=1, max_length=MAX_TEXT_LENGTH)
    context_field_list: list[str] = Field(min_length=1, max_length=20)
    system_prompt: str | None = Field(default=None, max_length=MAX_TEXT_LENGTH)
    user_instructions: str | None = Field(default=None, max_length=MAX_TEXT_LENGTH)


def parse_pipeline(definition: Json) -> Pipeline:
    """Parse the definition of a pipeline. Raises BadRequest."""
    match definition.get("response_processors"):
        case [Mapping() as processor]:
            pass
        case _:
            raise BadRequest(f"response_processors: must be a list of one object with {RAG}")
    phases = [name for name in OTHER_PHASES if definition.get(name)]
    others = [name for name in (*processor, *phases) if name != RAG]
    if others or RAG not in processor:
        other = f" (not {others[0]})" if others else ""
        raise BadRequest(f"response_processors: {RAG} is the only processor here{other}")
    path = f"response_processors[0].{RAG}"
    if not isinstance(processor[RAG], dict):
        raise BadRequest(f"{path} must be an object")
    return validate(Pipeline, processor[RAG], path)


def format_definition(pipeline: Pipeline) -> Json:
    """Format the definition of a pipeline, without the keys that have no effect here."""
    return {"response_processors": [{RAG: pipeline.model_dump(exclude_none=True)}]}


async def find_definition(exchange: Exchange, name: str) -> Json:
    """Return the definition of a name: a stored one before the one of the settings.

    Raises NotFound.
    """
    memory = exchange.app.memory
    stored = await memory.pipelines.get(name) if memory else None
    if stored is not None:
        return dict(stored)
    if name == DEFAULT:
        return _default_definition(exchange)
    raise _not_found(name)


def _default_definition(exchange: Exchange) -> Json:
    """Return the definition that the settings make."""
    pipeline = Pipeline(
        description="The answer to the question, made from the settings of the deployment.",
        model_id=exchange.rag.model.name,
        context_field_list=["text"],
        system_prompt=exchange.rag.prompts.pipeline,
    )
    return format_definition(pipeline)


def _visible_definition(exchange: Exchange, definition: Mapping[str, Any]) -> Json:
    """Return a definition, without its instructions for the model where thoughts are off."""
    if exchange.rag.thoughts:
        return dict(definition)
    hidden = {"system_prompt": None, "user_instructions": None}
    return format_definition(parse_pipeline(dict(definition)).model_copy(update=hidden))


async def put_pipeline(exchange: Exchange) -> Json:
    """Create or replace a pipeline."""
    exchange.app.access.check_admin(exchange.call.headers)
    pipeline = parse_pipeline(exchange.body)
    check_model(exchange, pipeline.model_id, "model_id")
    if not NAME.fullmatch(exchange.call.path):
        raise BadRequest(
            "the name of a pipeline has 1 to 100 letters, digits, dots, hyphens and underscores, "
            "and does not begin with a dot or an underscore"
        )
    definition = format_definition(pipeline)
    await get_memory(exchange).pipelines.put(exchange.call.path, definition)
    return ACKNOWLEDGED


async def get_pipeline(exchange: Exchange) -> Json:
    """Return a pipeline by its name."""
    name = exchange.call.path
    return {name: _visible_definition(exchange, await find_definition(exchange, name))}


async def list_pipelines(exchange: Exchange) -> Json:
    """Return all pipelines by name."""
    memory = exchange.app.memory
    stored = await memory.pipelines.all() if memory else {}
    definitions = {DEFAULT: _default_definition(exchange), **stored}
    return {name: _visible_definition(exchange, each) for name, each in definitions.items()}


async def delete_pipeline(exchange: Exchange) -> Json:
    """Delete a stored pipeline; the default one is then that of the settings."""
    exchange.app.access.check_admin(exchange.call.headers)
    if not await get_memory(exchange).pipelines.delete(exchange.call.path):
        raise _not_found(exchange.call.path)
    return ACKNOWLEDGED


async def put_settings(exchange: Exchange) -> Json:
    """Accept settings that turn on what is always on. Raises BadRequest for others."""
    exchange.app.access.check_admin(exchange.call.headers)
    applied: dict[str, Json] = {"persistent": {}, "transient": {}}
    for scope, values in exchange.body.items():
        if scope not in applied or not isinstance(values, dict):
            raise BadRequest(f"{scope[:100]}: must be `persistent` or `transient`, an object")
        for name, value in flatten_settings(values):
            is_known = name.removeprefix("plugins.ml_commons.") in FEATURES
            if not is_known or str(value).lower() != "true":
                raise BadRequest(f"{name[:100]}: cannot be set here, but for {', '.join(FEATURES)}")
            applied[scope][name] = value
    if not any(applied.values()):
        raise BadRequest(f"nothing is to be set: {', '.join(FEATURES)} can be")
    return ACKNOWLEDGED | applied


def flatten_settings(values: Json, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings by their full names, however they are nested."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and len(name) <= MAX_SETTING_LENGTH:
            yield from flatten_settings(value, f"{name}.")
        else:
            yield name, value


def check_model(exchange: Exchange, name: str, field: str) -> None:
    """Raise BadRequest unless a model is configured."""
    default, models = exchange.rag.model.name, exchange.rag.models
    others = filter(models.has_model, models.model_names)
    names = tuple(dict.fromkeys((default, *others)))
    if name not in names:
        known = "the model is" if len(names) == 1 else "the models are"
        raise BadRequest(f"is not configured here: {known} {', '.join(names)}", field=field)


def _not_found(name: str) -> NotFound:
    return NotFound(f"Pipeline [{name}] not found")
