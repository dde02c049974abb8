"""Search pipelines: stored beside the conversations, changed by whoever may administer."""

from __future__ import annotations

from shared.dialects import opensearch_search as wire
from shared.dialects.opensearch import ACKNOWLEDGED
from shared.dialects.opensearch_search import Pipeline
from shared.dialects.wire import Json
from shared.errors import BadRequest, NotFound, Unsupported
from shared.opensearch import Asked, Store

DEFAULT = "default"
LONGEST_NAME = 100
# The first steps of the document: nothing has to be turned on here.
FEATURES = ("memory_feature_enabled", "rag_pipeline_feature_enabled")
CONFIGURED = (
    "Models are configured in the settings of the deployment (AZURE_OPENAI_CHAT_DEPLOYMENT, "
    "OPENAI_CHAT_MODEL): there are no connectors, model groups, tasks or agents. A pipeline's "
    "model_id is the name of the configured model."
)


async def named(store: Store, name: str) -> Pipeline:
    """The pipeline of a name: a stored one before the one that the settings make.

    Raises NotFound.
    """
    found = await store.memory.pipelines.get(name) if store.memory else None
    if found is not None:
        return wire.pipeline(found)
    if name == DEFAULT:
        return store.default
    raise _missing(name)


async def put(asked: Asked) -> Json:
    """Store a pipeline."""
    store, name = asked.store, _writable(asked)
    processor = wire.pipeline(asked.body)
    check_model(store, processor.model_id, "model_id")
    if not 0 < len(name) <= LONGEST_NAME or name.startswith("_"):
        raise BadRequest(
            f"the name of a pipeline has 1 to {LONGEST_NAME} characters, and no _ first"
        )
    await store.kept.pipelines.put(name, asked.body)
    return ACKNOWLEDGED


async def get(asked: Asked) -> Json:
    """One pipeline, by its name."""
    store, name = asked.store, asked.call.path
    found = await store.memory.pipelines.get(name) if store.memory else None
    if found is None and name == DEFAULT:
        found = wire.definition(store.default)
    if found is None:
        raise _missing(name)
    return {name: dict(found)}


async def every(asked: Asked) -> Json:
    """Every pipeline."""
    store = asked.store
    stored = await store.memory.pipelines.all() if store.memory else {}
    return {DEFAULT: wire.definition(store.default), **stored}


async def delete(asked: Asked) -> Json:
    """Remove a pipeline; the one that the settings make comes to light again."""
    name = _writable(asked)
    if not await asked.store.kept.pipelines.delete(name):
        raise _missing(name)
    return ACKNOWLEDGED


async def settings(asked: Asked) -> Json:
    """Turn on what is always on."""
    asked.store.access.check_admin(asked.call.headers)
    told = {}
    for scope in ("persistent", "transient"):
        given = asked.body.get(scope) or {}
        told[scope] = flat(given) if isinstance(given, dict) else {scope: given}
    for name, value in (told["persistent"] | told["transient"]).items():
        known = name.removeprefix("plugins.ml_commons.") in FEATURES
        if not known or str(value).lower() != "true":
            raise BadRequest(f"{name[:100]}: cannot be set here, but for {', '.join(FEATURES)}")
    return ACKNOWLEDGED | told


def flat(given: Json, prefix: str = "") -> Json:
    """Settings by their whole names, however they were nested."""
    found: Json = {}
    for name, value in given.items():
        whole = f"{prefix}{name}"
        found |= flat(value, f"{whole}.") if isinstance(value, dict) else {whole: value}
    return found


async def models(_asked: Asked) -> Json:
    """Models are made elsewhere."""
    raise Unsupported(CONFIGURED)


def check_model(store: Store, name: str, field: str) -> None:
    """Raise BadRequest where a model is none of those that are configured."""
    configured = store.engine.model.name
    if name != configured:
        raise BadRequest(f"is not configured here: the model is {configured}", field=field)


def _writable(asked: Asked) -> str:
    """The name of the pipeline that is to be changed. Raises Unauthorized, Forbidden."""
    asked.store.access.check_admin(asked.call.headers)
    return asked.call.path


def _missing(name: str) -> NotFound:
    return NotFound(f"Pipeline [{name}] not found")
