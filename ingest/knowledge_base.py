"""Creates or updates the app's knowledge base: `python -m ingest.knowledge_base`.

Its knowledge sources are those of AZURE_SEARCH_KNOWLEDGE_SOURCES, by default the index of
AZURE_SEARCH_INDEX. With the efforts low and medium it has the model of
AZURE_OPENAI_CHAT_DEPLOYMENT, too. `--remove` deletes the base, and its source over the index.
`--source FILE` creates a source of documents that the service reads itself, or removes it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ingest import knowledge_source
from ingest.cli import run_command
from shared.bootstrap.search import make_knowledge_base_retriever
from shared.domain.errors import ChatError
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.retrieval.azure_search.knowledge_base.sources import KnowledgeSource
from shared.settings import Settings, require_settings

if TYPE_CHECKING:  # these import the Azure SDKs
    from azure.search.documents.indexes.models import SearchIndex

    from ingest.targets.azure_search.knowledge_base import Definition

NOT_ANSWERED = (
    "It was asked a question and did not answer: {cause}. A new role takes some minutes to act; "
    "`make knowledge-base` asks again."
)
NO_VECTORIZER = (
    "Its vectors are not used: a knowledge base needs a vectorizer in the index "
    "(AZURE_SEARCH_VECTORIZER)."
)
NOT_TRIED = "It was asked no question: that takes the token of a user."
INTERRUPTED = (
    "Stopped. The service goes on reading the documents; run the command again to follow it."
)
QUESTION = "What are these documents about?"


def read_definition(settings: Settings, model_name: str | None) -> Definition:
    """Return what the settings define. Raises SettingsError.

    `model_name` is the name of the model of AZURE_OPENAI_CHAT_DEPLOYMENT, if it is another one.
    """
    from ingest.targets.azure_search.knowledge_base import Definition
    from ingest.targets.azure_search.openai_model import OpenAIModel

    required = ("AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX", "AZURE_SEARCH_KNOWLEDGE_BASE")
    _, index, base = require_settings(settings, *required)
    sources = settings.azure_search_knowledge_sources or (KnowledgeSource(name=index),)
    effort = settings.azure_search_knowledge_effort
    if effort in (None, "minimal"):
        return Definition(base, tuple(sources), index)
    names = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_CHAT_DEPLOYMENT")
    endpoint, deployment = require_settings(settings, *names)
    model = OpenAIModel(endpoint, deployment, model_name or deployment)
    return Definition(base, tuple(sources), index, effort, model)


async def run(
    removes: bool, model_name: str | None, settings: Settings, must_answer: bool = True
) -> list[str]:
    """Create the base and ask it a question, or remove it. Return the lines to print.

    Raises HANDLED_ERRORS; those of the question only if it must be answered.
    """
    from ingest.targets.azure_search import knowledge_base
    from ingest.targets.azure_search.service import open_service
    from shared.retrieval.azure_search.index_fields import IndexFields

    if removes:  # whatever the effort is
        settings = settings.model_copy(update={"azure_search_knowledge_effort": None})
    definition = read_definition(settings, model_name)
    async with open_service(settings, definition.index) as (clients, search):
        if removes:
            await knowledge_base.remove(search.indexes, definition)
            own = definition.own_source
            source = f", and its source {own}" if own else ""
            return [f"The knowledge base {definition.base} is removed{source}."]
        fields = IndexFields(**(settings.azure_search_fields or {})).select_fields()
        ranking = settings.azure_search_semantic_configuration
        index = await knowledge_base.create(search.indexes, definition, fields, ranking)
        if settings.azure_search_permissions == "user-token":
            return [*_describe(definition, index, NOT_TRIED)]
        retriever = make_knowledge_base_retriever(clients, definition.base)
        async with retriever.base.client:
            try:
                result = await retriever.search(User(), QUESTION, Overrides(top=1))
            except ChatError as error:
                if must_answer:
                    raise
                cause = NOT_ANSWERED.format(cause=error.cause or error.message)
                return [*_describe(definition, index, cause)]
        found = "a passage" if result.sources else "no public passage"
        tried = f"It was asked a question and found {found}."
        return [*_describe(definition, index, tried), *result.notes]


def _describe(definition: Definition, index: SearchIndex | None, tried: str) -> Iterator[str]:
    what = f"the index {definition.index}"
    if definition.other_sources:
        what = f"the knowledge sources {', '.join(each.name for each in definition.sources)}"
    effort = f"with the effort {definition.effort}"
    yield f"The knowledge base {definition.base} searches {what} {effort}."
    yield tried
    if index is None:
        return
    vectors = index.vector_search
    if any(each.vector_search_dimensions for each in index.fields) and not (
        vectors and vectors.vectorizers
    ):
        yield NO_VECTORIZER


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns 0, or 1 on an error."""
    parser = argparse.ArgumentParser(prog="python -m ingest.knowledge_base", description=__doc__)
    parser.add_argument("--remove", action="store_true", help="delete the base and its source")
    parser.add_argument("--model", help="the deployment's model, if it has another name")
    parser.add_argument(
        "--source", type=Path, metavar="FILE", help="the YAML of a knowledge source"
    )
    options = parser.parse_args(arguments)
    if options.source:
        return run_source(options)
    return run_command(partial(run, options.remove, options.model))


def run_source(options: argparse.Namespace) -> int:
    """Create or remove the source of a file. Returns 0, 1 on an error, 130 on Ctrl+C."""
    if options.remove:
        return run_command(partial(knowledge_source.remove, options.source))
    try:
        return run_command(partial(knowledge_source.create, options.source, options.model))
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
