"""Creates the index of uploads, or adds what it lacks: what reads uploads may create none."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ingest.cli import HANDLED_ERRORS, error_message, print_lines
from ingest.setup import IngestOptions, build_index_spec, get_embedding_dimensions
from ingest.targets.azure_search.index_update import create_or_update
from ingest.targets.azure_search.retry import RetryPolicy
from ingest.targets.azure_search.service import open_service
from scripts.local_settings import AZD_OUTPUTS
from scripts.samples import SamplesError, WaitPolicy, wait_for_roles
from scripts.switches import is_on, is_private_network
from shared.settings import Settings, read_settings

CREATED_MESSAGE = "The index {index} of uploads is created."
UPDATED_MESSAGE = "The index {index} of uploads is there."
PRIVATE_NETWORK_MESSAGE = (
    "Search and models accept requests only from the virtual network, so the index of uploads is "
    "not created yet, and uploads wait for it. From a machine there: `azd env set "
    "AZURE_LOAD_SAMPLES true`, `azd hooks run postprovision`. Or allow your own address: "
    "AZURE_ALLOWED_IPS."
)


async def prepare_uploads_index(environment: Mapping[str, str], wait_policy: WaitPolicy) -> None:
    """Create or update the index where uploads were deployed. Raises SamplesError."""
    index = environment.get("AZURE_UPLOADS_INDEX_IN_USE", "").strip()
    if not index:
        return
    if is_private_network(environment) and not is_on(environment, "AZURE_LOAD_SAMPLES"):
        return print_lines([PRIVATE_NETWORK_MESSAGE])
    # Without AZURE_APP_SETTINGS: the index has the fields of this project, whatever those of the
    # documents are, and the app filters by owner itself.
    values = {name: environment.get(name, "") for name in AZD_OUTPUTS}
    settings = read_settings(values | {"AZURE_SEARCH_INDEX": index})
    try:
        await wait_for_roles(partial(create_index, settings), wait_policy)
    except HANDLED_ERRORS as error:
        raise SamplesError(error_message(error)) from error


async def create_index(settings: Settings) -> None:
    """Create or update the index of the settings. Raises the errors of HANDLED_ERRORS."""
    dimensions = await get_embedding_dimensions(settings)
    spec = build_index_spec(settings, dimensions, IngestOptions(folder=None))
    async with open_service(settings, spec.index) as (_, search):
        _, is_new = await create_or_update(search.indexes, spec, RetryPolicy())
    message = CREATED_MESSAGE if is_new else UPDATED_MESSAGE
    print_lines([message.format(index=spec.index)])
