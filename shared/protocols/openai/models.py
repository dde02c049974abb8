"""The models that OpenAI's clients may name, those for tasks among them.

A task is what a chat page asks beside its chats: titles, tags, follow-up questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from shared.domain.request import ChatRequest
from shared.models.router import Router
from shared.protocols.exchange import Exchange

SUFFIX = "-no-search"  # of the name of a model
MAX_TOKENS = 1000  # of the answer to a task


@dataclass(frozen=True, slots=True)
class TaskModelsConfig:
    """Whether the deployment has them. Whoever may call can then use its models for anything."""

    enabled: bool = False


def list_models(exchange: Exchange) -> dict[str, str]:
    """Return the name of the provider of each model that a request may name, by its name.

    A model of the deployment takes precedence over a task model of the same name.
    """
    owners = find_owners(exchange.rag.models)
    if not exchange.app.config(TaskModelsConfig).enabled:
        return owners
    names = dict(owners)  # first: pages begin with one of these
    for name, owner in owners.items():
        names.setdefault(f"{name}{SUFFIX}", owner)
    return names


def find_owners(models: Router) -> dict[str, str]:
    """Return the name of the first provider of each model, by the model's name."""
    owners: dict[str, str] = {}
    for provider in models.providers:
        for name in provider.models if provider.available else ():
            owners.setdefault(name, provider.name)
    return owners


def apply_task_model(exchange: Exchange, request: ChatRequest) -> ChatRequest:
    """Return a request that names a task model without its search, and with a short answer."""
    name, config = request.overrides.model or "", exchange.app.config(TaskModelsConfig)
    if not config.enabled or not name.endswith(SUFFIX) or name in find_owners(exchange.rag.models):
        return request
    overrides = request.overrides.model_copy(update={"model": name.removesuffix(SUFFIX)})
    generation = replace(request.generation, parameters=_limit(request.generation.parameters))
    return replace(request, overrides=overrides, generation=generation, grounding="none")


def _limit(parameters: Mapping[str, object]) -> Mapping[str, object]:
    requested = parameters.get("max_tokens")
    limit = min(requested, MAX_TOKENS) if isinstance(requested, int) else MAX_TOKENS
    return {**parameters, "max_tokens": limit}
