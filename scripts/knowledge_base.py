"""Creates the knowledge base over the index, after the sample documents are loaded."""

from __future__ import annotations

from collections.abc import Mapping

from ingest import knowledge_base
from ingest.cli import HANDLED_ERRORS, error_message, print_lines
from scripts.samples import SamplesError
from scripts.switches import expects_index
from shared.settings import Settings

NO_INDEX_MESSAGE = (
    "There is no index yet: after `make index`, `make knowledge-base` creates the knowledge base "
    "that the app searches."
)


async def prepare_knowledge_base(environment: Mapping[str, str], settings: Settings) -> None:
    """Create or update the base, and ask it a question. Raises SamplesError."""
    if not expects_index(environment):
        return print_lines([NO_INDEX_MESSAGE])
    try:
        print_lines(await knowledge_base.run(False, None, settings, must_answer=False))
    except HANDLED_ERRORS as error:
        raise SamplesError(error_message(error)) from error
