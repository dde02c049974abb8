"""Creates the knowledge source that a file defines: `python -m ingest.knowledge_base --source`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from ingest.cli import format_file_list
from ingest.strict_yaml import InvalidYaml, read_yaml
from shared.bootstrap.local_settings import UsageError, read_environment
from shared.retrieval.azure_search.knowledge_base.sources import KnowledgeSource
from shared.settings import Settings, require_settings

if TYPE_CHECKING:  # these import the Azure SDKs
    from ingest.targets.azure_search.knowledge_source import Progress
    from ingest.targets.azure_search.openai_model import OpenAIModel
    from ingest.targets.azure_search.source_definition import SourceDefinition

NO_SECRET = "secret: {name} is not set: set it in the environment of this command."
WRONG_SECRET = "secret: the value of {name} is empty, or has a character that none has."
NO_NEW_RUN = (
    "The knowledge source {name} is updated. The service has not begun to read its documents anew; "
    "it does by its schedule."
)
NO_VECTORS = (
    "Its documents are found by words alone: AZURE_OPENAI_EMBEDDING_DEPLOYMENT names no embedding "
    "model."
)
NEXT = (
    "To search it, set AZURE_SEARCH_KNOWLEDGE_SOURCES to this, here and in the app, and run "
    "`make knowledge-base`:"
)
BY_TOKEN = (
    "It has the permissions of its documents: with sign-in, the app asks for them by the user's "
    "token (AZURE_SEARCH_PERMISSIONS=user-token)."
)


def read_file(path: Path) -> SourceDefinition:
    """Read the definition of a source. Raises UsageError."""
    from ingest.targets.azure_search.source_definition import ADAPTER, FORM

    try:
        return read_yaml(path, ADAPTER, FORM)
    except InvalidYaml as error:
        raise UsageError(str(error)) from None


def read_secret(name: str | None) -> str:
    """Return the value of the variable that a file names as its secret. Raises UsageError."""
    if name is None:
        return ""
    secret = read_environment(os.environ).get(name)
    if secret is None:
        raise UsageError(NO_SECRET.format(name=name))
    if not secret or not secret.isprintable() or set(secret) & {";", " "}:
        raise UsageError(WRONG_SECRET.format(name=name))
    return secret


def make_embedding_model(settings: Settings, model_name: str | None) -> OpenAIModel | None:
    """Return the model of the settings that makes the vectors; None without one."""
    from ingest.targets.azure_search.openai_model import OpenAIModel

    endpoint, deployment = (
        settings.azure_openai_endpoint,
        settings.azure_openai_embedding_deployment,
    )
    if not endpoint or not deployment:
        return None
    return OpenAIModel(endpoint, deployment, model_name or deployment)


async def create(path: Path, model_name: str | None, settings: Settings) -> list[str]:
    """Create or update the source of a file, and wait until its documents are indexed.

    `model_name` is the name of the model of AZURE_OPENAI_EMBEDDING_DEPLOYMENT, if it is another
    one. Returns the lines to print. Raises HANDLED_ERRORS.
    """
    from ingest.targets.azure_search import knowledge_source
    from ingest.targets.azure_search.service import open_service
    from ingest.targets.azure_search.source_definition import to_json

    source = read_file(path)
    model = make_embedding_model(settings, model_name)
    definition = to_json(source, read_secret(source.secret), model)
    _, index = require_settings(settings, "AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX")
    async with open_service(settings, index) as (_, search):
        last_run = await knowledge_source.create_source(search.indexes, definition)
        with tqdm(desc=source.name, unit="document", disable=None, leave=False) as bar:

            def show(progress: Progress) -> None:
                bar.update(progress.processed - bar.n)

            progress = await knowledge_source.follow_source(
                search.indexes, source.name, last_run, show
            )
    return [*_describe(source, progress, model), *_describe_setting(source, settings)]


async def remove(path: Path, settings: Settings) -> list[str]:
    """Take the source of a file out of the app's base, and delete it. Raises HANDLED_ERRORS."""
    from ingest.targets.azure_search import knowledge_base, knowledge_source
    from ingest.targets.azure_search.service import open_service

    source = read_file(path)
    names = ("AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX", "AZURE_SEARCH_KNOWLEDGE_BASE")
    _, index, base = require_settings(settings, *names)
    async with open_service(settings, index) as (_, search):
        await knowledge_source.read_source(search.indexes, source.name, source.kind)
        await knowledge_base.remove_from_base(search.indexes, base, source.name)
        await knowledge_source.remove_source(search.indexes, source.name)
    return [f"The knowledge source {source.name} is removed, also from the base {base}."]


def _describe(
    source: SourceDefinition, progress: Progress | None, model: OpenAIModel | None
) -> Iterator[str]:
    if progress is None:
        yield NO_NEW_RUN.format(name=source.name)
    else:
        yield (
            f"The knowledge source {source.name} has read its documents: {progress.processed} put, "
            f"{progress.skipped} skipped, {progress.failed} failed."
        )
        yield from format_file_list("Failed", progress.errors.items())
    if model is None:
        yield NO_VECTORS
    if source.permissions:
        yield BY_TOKEN


def _describe_setting(source: SourceDefinition, settings: Settings) -> Iterator[str]:
    """Say how the app searches a source, unless it does."""
    ours = KnowledgeSource(name=source.name, kind=source.kind, permissions=source.permissions)
    listed = settings.azure_search_knowledge_sources
    if ours in listed:
        return
    default = [KnowledgeSource(name=settings.azure_search_index or "")]
    others = [each for each in listed or default if each.name != source.name]
    value = [each.model_dump(exclude_defaults=True) for each in (*others, ours)]
    yield NEXT
    yield json.dumps(value)
