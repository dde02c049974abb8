"""Creates or updates the knowledge base over the app's index: `python -m ingest.knowledge_base`.

It has one knowledge source, the index of AZURE_SEARCH_INDEX. With the efforts low and medium it has
the model of AZURE_OPENAI_CHAT_DEPLOYMENT, too. `--remove` deletes base and source.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from ingest.cli import run_command
from shared.bootstrap.search import make_knowledge_base_retriever
from shared.domain.errors import ChatError
from shared.domain.overrides import Overrides
from shared.domain.request import User
from shared.settings import Settings, SettingsError, require_settings

if TYPE_CHECKING:  # these import the Azure SDKs
    from azure.search.documents.indexes.models import SearchIndex

    from ingest.targets.azure_search.knowledge_base import Definition

SEVERAL = "AZURE_SEARCH_KNOWLEDGE_SOURCES has several: this command makes one"
OTHER_KIND = "AZURE_SEARCH_KNOWLEDGE_SOURCES has another kind: this command makes a searchIndex"
NOT_ANSWERED = (
    "It was asked a question and did not answer: {cause}. A new role takes some minutes to act; "
    "`make knowledge-base` asks again."
)
NO_VECTORIZER = (
    "Its vectors are not used: a knowledge base needs a vectorizer in the index "
    "(AZURE_SEARCH_VECTORIZER)."
)
NOT_TRIED = "It was asked no question: that takes the token of a user."
QUESTION = "What are these documents about?"


def read_definition(settings: Settings, model_name: str | None) -> Definition:
    """Return what the settings define. Raises SettingsError.

    `model_name` is the name of the model of AZURE_OPENAI_CHAT_DEPLOYMENT, if it is another one.
    """
    from ingest.targets.azure_search.knowledge_base import Definition, PlanningModel

    required = ("AZURE_SEARCH_ENDPOINT", "AZURE_SEARCH_INDEX", "AZURE_SEARCH_KNOWLEDGE_BASE")
    _, index, base = require_settings(settings, *required)
    sources = settings.azure_search_knowledge_sources
    if len(sources) > 1:
        raise SettingsError((SEVERAL,))
    if not all(source.is_index for source in sources):
        raise SettingsError((OTHER_KIND,))
    source = sources[0].name if sources else index
    effort = settings.azure_search_knowledge_effort
    if effort in (None, "minimal"):
        return Definition(base, source, index)
    names = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_CHAT_DEPLOYMENT")
    endpoint, deployment = require_settings(settings, *names)
    model = PlanningModel(endpoint, deployment, model_name or deployment)
    return Definition(base, source, index, effort, model)


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
            names = f"{definition.base} is removed, and its source {definition.source}"
            return [f"The knowledge base {names}."]
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


def _describe(definition: Definition, index: SearchIndex, tried: str) -> Iterator[str]:
    effort = f"with the effort {definition.effort}"
    yield f"The knowledge base {definition.base} searches the index {definition.index} {effort}."
    yield tried
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
    options = parser.parse_args(arguments)
    return run_command(partial(run, options.remove, options.model))


if __name__ == "__main__":
    sys.exit(main())
