"""Prints the settings for an index of another tool: `python -m ingest.describe_index [INDEX]`.

It reads the definition of the index, not its documents, and changes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ingest.cli import run_command
from ingest.targets.index_writer import IndexUnavailable
from shared.settings import Settings, SettingsError, require_settings

if TYPE_CHECKING:  # these import the Azure SDKs
    from azure.search.documents.indexes.models import SearchIndex

AZD = {  # the variables of azd for the app's settings
    "AZURE_SEARCH_INDEX": "AZURE_SEARCH_INDEX",
    "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "AZURE_EXISTING_SEARCH_SEMANTIC_CONFIGURATION",
}
NO_INDEX = "There is no index {index} at this service (AZURE_SEARCH_ENDPOINT)."
UNRESTRICTED = (
    "No field says who may see a document. With sign-in the app refuses such an index, unless "
    "AZURE_SEARCH_INDEX_PUBLIC is true: then everybody who may call sees all of it."
)
VECTORS = (
    "The field {field} has vectors of {dimensions} numbers. For these, also name the model that "
    "computed them: AZURE_OPENAI_EMBEDDING_DEPLOYMENT, or OPENAI_EMBEDDING_MODEL."
)
CHECK = "The names were guessed from the definition: ask a question, and look at its sources."


async def read_index(settings: Settings, name: str | None) -> SearchIndex:
    """Return the definition of an index. Raises HANDLED_ERRORS."""
    from ingest.targets.azure_search import index_update
    from ingest.targets.azure_search.retry import RetryPolicy
    from ingest.targets.azure_search.service import open_service

    require_settings(settings, "AZURE_SEARCH_ENDPOINT")
    if not (name := name or settings.azure_search_index):
        raise SettingsError(("AZURE_SEARCH_INDEX is required",))
    async with open_service(settings, name) as (_, search):
        retry_policy = RetryPolicy(max_attempts=2)
        index = await retry_policy.call_with_retry(index_update.get_index, search.indexes, name)
    if index is None:
        raise IndexUnavailable(NO_INDEX.format(index=name))
    return index


def describe(index: SearchIndex) -> Iterator[str]:
    """Yield the lines of the output: settings, then what to know. Raises IndexUnavailable."""
    from ingest.targets.azure_search.field_guess import guess_fields, list_settings

    names = guess_fields(index)
    settings = dict(list_settings(index, names))
    yield "For the Values of local.settings.json:"
    yield from (f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in settings.items())
    yield "For a deployment with azd:"
    yield from _list_azd_commands(settings)
    if not names.has_access_control:
        yield UNRESTRICTED
    field = next((each for each in index.fields if each.name == names.embedding), None)
    if field and "AZURE_SEARCH_VECTORIZER" not in settings:
        yield VECTORS.format(field=field.name, dimensions=field.vector_search_dimensions)
    yield CHECK


def _list_azd_commands(settings: Mapping[str, str]) -> Iterator[str]:
    for name, variable in AZD.items():
        if name in settings:
            yield f"  azd env set {variable} {settings[name]}"
    if others := {name: settings[name] for name in settings if name not in AZD}:
        yield f"  azd env set AZURE_APP_SETTINGS '{json.dumps(others)}'"


async def run(name: str | None, settings: Settings) -> Iterator[str]:
    """Return the lines to print. Raises HANDLED_ERRORS."""
    return describe(await read_index(settings, name))


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Returns 0, or 1 on an error."""
    parser = argparse.ArgumentParser(prog="python -m ingest.describe_index", description=__doc__)
    parser.add_argument("index", nargs="?", help="its name (AZURE_SEARCH_INDEX)")
    options = parser.parse_args(arguments)
    return run_command(partial(run, options.index))


if __name__ == "__main__":
    sys.exit(main())
