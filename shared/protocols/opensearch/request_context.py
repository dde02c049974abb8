"""What the routes of OpenSearch's conversational search are answered with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from shared.chat.errors import Unsupported
from shared.http.auth import AccessPolicy
from shared.http.call import Call
from shared.http.json_encoding import Json
from shared.memory.base import Memory
from shared.protocols.opensearch.search_json import Pipeline
from shared.rag.flow import Rag
from shared.telemetry.access_log import AccessLog

NO_MEMORY = (
    "This deployment keeps no conversations: set AZURE_COSMOS_ENDPOINT, or MEMORY_FILE on one "
    "machine."
)


@dataclass(frozen=True, slots=True)
class SearchService:
    """What there is to answer with: the parts of a chat, and a memory or None.

    `index` is the name of the one index. `kept_back` are the seconds of a request that are for
    storing its answer.
    """

    engine: Rag
    access: AccessPolicy
    memory: Memory | None
    index: str
    kept_back: float

    @property
    def kept(self) -> Memory:
        """The memory. Raises Unsupported where there is none."""
        if self.memory is None:
            raise Unsupported(NO_MEMORY)
        return self.memory

    @property
    def default(self) -> Pipeline:
        """The pipeline that the settings make."""
        return Pipeline(
            description="The answer to the question, made from the settings of the deployment.",
            model_id=self.engine.model.name,
            context_field_list=["text"],
            system_prompt=self.engine.prompts.pipeline,
        )


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A call with its JSON body, to be answered until `deadline` (the event loop's clock).

    `record` takes down for the log what happens.
    """

    store: SearchService
    call: Call
    body: Json
    deadline: float
    record: AccessLog

    @property
    def mine(self) -> tuple[str, Memory]:
        """Who asks, and the memory. Raises Unsupported, Unauthorized."""
        memory = self.store.kept
        return self.store.access.get_owner(self.call.headers), memory


Handler = Callable[[RequestContext], Awaitable[Json]]
"""Answers a call with JSON. Raises ChatErrors."""


async def alive(_asked: RequestContext) -> Json:
    """For whoever asks whether there is anybody."""
    return {}
