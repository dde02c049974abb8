"""Selects the model of a request by policy, by the request's options and by recent failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NoReturn

from shared.domain.errors import (
    BadRequest,
    ChatError,
    DeadlineExceeded,
    Forbidden,
    NoProvider,
    NoSuchModel,
    NoSuchProvider,
    TooManyRequests,
    Unavailable,
)
from shared.domain.overrides import Policy
from shared.models.base import Model
from shared.models.selected_model import FallbackOptions, SelectedModel

Side = Literal["local", "remote"]
SIDES: Sequence[Side] = ("local", "remote")
RequestProviderFactory = Callable[[Mapping[str, Any], str | None], Model]
"""Makes a model by a request's description of its provider and its name. Raises ChatErrors."""

DOWN_SECONDS = 30.0  # for which a local model is not called after a failure
MAX_DOWN_SECONDS = 300.0  # even if its server asks for a longer wait
# Failures after which a model is not called. Others are quick, or the request's own fault.
DOWN_ERRORS = (DeadlineExceeded, TooManyRequests, Unavailable)
REQUEST_PROVIDER = "remote_service_provider"  # what a provider is called that a request describes


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models, local or remote.

    `models` are the names of its models, the default first; empty if it has a model of any name.
    `allows_selection` is whether a request may select one. `make_model` takes the name of a model,
    or None for the server's default.
    """

    name: str
    side: Side
    make_model: Callable[[str | None], Model]
    models: tuple[str, ...] = ()
    allows_selection: bool = True
    available: bool = True
    aliases: Mapping[str, str] = field(default_factory=dict)  # of models, also of other providers

    def has_model(self, model: str | None) -> bool:
        """Whether it can answer a request for this model; None is any model."""
        if model is None or not self.allows_selection or not self.models:
            return True
        return self.aliases.get(model, model) in self.models

    def get_model(self, name: str | None) -> Model:
        """Return the model of that name, or the default one if it allows no selection."""
        default = self.models[0] if self.models else None
        selected = self.aliases.get(name, name) if name and self.allows_selection else default
        return self.make_model(selected)


@dataclass(frozen=True, slots=True)
class ModelSelection:
    """The options of a request that select a model; None leaves one to the deployment."""

    policy: Policy | None = None
    model: str | None = None
    remote: str | Mapping[str, Any] | None = None
    request_id: str = ""


def reject_request_provider(_provider: Mapping[str, Any], _model: str | None) -> Model:
    """Raise Forbidden: without an allow-list no request may describe a provider."""
    raise Forbidden(
        "remote_service_provider: this deployment calls no provider that a request describes "
        "(INLINE_PROVIDER_HOSTS)."
    )


class Router:
    """The providers of a deployment; selects the models of a request."""

    def __init__(
        self,
        providers: Sequence[Provider],
        policy: Policy = "default",
        request_providers: RequestProviderFactory = reject_request_provider,
        seconds: float = 20,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set the providers. A local model with a remote fallback has `seconds` to its first token.

        `request_providers` makes the models of providers that requests describe.
        """
        self.providers, self.policy = tuple(providers), policy
        self._available: Mapping[Side, Sequence[Provider]] = {
            side: [item for item in providers if item.side == side and item.available]
            for side in SIDES
        }
        self._make_request_model, self._seconds, self._now = request_providers, seconds, now
        self._down_until: dict[str, float] = {}  # by the provider's name

    @classmethod
    def for_model(cls, model: Model) -> Router:
        """Return a router with one model."""
        return cls(
            (Provider(model.name, "local", lambda _: model, (model.name,), allows_selection=False),)
        )

    @property
    def default(self) -> Model:
        """The model of a request without options. Raises NoProvider.

        If the policy allows none of the providers, it is that of any provider.
        """
        if not (available := self._available_in_order()):
            raise NoProvider
        return available[0].get_model(None)

    @property
    def other_providers(self) -> Sequence[Provider]:
        """The available providers but that of `default`."""
        return self._available_in_order()[1:]

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of the models that a request may select, each once."""
        selectable = (item for item in self._available_in_order() if item.allows_selection)
        return tuple(dict.fromkeys(name for item in selectable for name in item.models))

    def _available_in_order(self) -> list[Provider]:
        sides = reversed(SIDES) if self.policy == "always_remote" else SIDES
        return [provider for side in sides for provider in self._available[side]]

    def has_model(self, model: str | None) -> bool:
        """Whether a request that leaves the policy to the deployment may name this model."""
        side = {"always_local": "local", "always_remote": "remote"}.get(self.policy)
        allowed = (item for item in self._available_in_order() if side in (None, item.side))
        return any(item.has_model(model) for item in allowed)

    def default_provider_name(self, side: Side) -> str:
        """Return the name of a side's default provider; empty if the side has none."""
        providers = [provider for provider in self.providers if provider.side == side]
        return next((provider.name for provider in [*self._available[side], *providers]), "")

    def select(self, selection: ModelSelection) -> SelectedModel:
        """Select the model of a request and its fallback.

        Raises NoProvider, NoSuchProvider, NoSuchModel, Forbidden, BadRequest.
        """
        policy, name = selection.policy or self.policy, selection.model
        if policy == "always_remote":
            return SelectedModel(self._select_remote(selection)[1])
        local = self._find_provider("local", name)
        if policy == "always_local":
            return SelectedModel((local or self._reject("local", name)).get_model(name))
        if local is None:
            return SelectedModel(self._select_remote_instead(selection))
        try:
            remote_name, remote = self._select_remote(selection)
        except ChatError:  # no fallback is available: the local model is used even if it is down
            return SelectedModel(local.get_model(name))
        if self._is_down(local):
            note = f"{remote_name} was asked: {local.name} did not answer a short while ago."
            return SelectedModel(remote, notes=[note])
        return SelectedModel(
            local.get_model(name),
            FallbackOptions(
                remote,
                self._seconds,
                on_failure=partial(self._record_failure, local),
                on_answer=partial(self._record_answer, local),
                provider_names=(local.name, remote_name),
                request_id=selection.request_id,
            ),
        )

    def _find_provider(self, side: Side, model: str | None) -> Provider | None:
        """Return the first available provider of a side that has a model."""
        for provider in self._available[side]:
            if provider.has_model(model):
                return provider
        return None

    def _reject(self, side: Side, model: str | None) -> NoReturn:
        """Raise the failure for a side without a provider, or with none that has a model."""
        if not self._available[side]:
            raise NoProvider(f"No {side} provider is available.")
        raise no_such_model(model)

    def _select_remote(self, selection: ModelSelection) -> tuple[str, Model]:
        """The name of the remote provider for a request, and its model."""
        if isinstance(selection.remote, Mapping):
            return REQUEST_PROVIDER, self._make_request_model(selection.remote, selection.model)
        if selection.remote is None:
            provider = self._find_provider("remote", selection.model)
            provider = provider or self._reject("remote", selection.model)
        else:
            provider = self._select_by_name(selection)
        return provider.name, provider.get_model(selection.model)

    def _select_by_name(self, selection: ModelSelection) -> Provider:
        remotes = {item.name: item for item in self.providers if item.side == "remote"}
        provider = remotes.get(str(selection.remote))
        if provider is None:
            raise NoSuchProvider(f"There is no remote provider {selection.remote!r:.100}.")
        if not provider.available:
            raise NoProvider(f"The remote provider {provider.name} is not available.")
        if not provider.has_model(selection.model):
            raise no_such_model(selection.model)
        return provider

    def _select_remote_instead(self, selection: ModelSelection) -> Model:
        """Select the remote model of a request for which there is no local one."""
        try:
            return self._select_remote(selection)[1]
        except NoProvider as error:
            if self._available["local"]:
                raise no_such_model(selection.model) from None
            raise (error if selection.remote else NoProvider()) from None

    def _is_down(self, local: Provider) -> bool:
        """Whether a provider failed recently.

        After that time one request tries it; for the others it is down until that one is answered.
        """
        until, now = self._down_until.get(local.name), self._now()
        if until is None:
            return False
        if now >= until:
            self._down_until[local.name] = now + max(self._seconds, DOWN_SECONDS)
        return now < until

    def _record_failure(self, local: Provider, failure: ChatError) -> None:
        if isinstance(failure, BadRequest) and failure.upstream_status is not None:
            self._record_answer(local)  # the server responded: it is not down
        if isinstance(failure, DOWN_ERRORS):
            wait = max(getattr(failure, "retry_after", None) or 0, DOWN_SECONDS)
            self._down_until[local.name] = self._now() + min(wait, MAX_DOWN_SECONDS)

    def _record_answer(self, local: Provider) -> None:
        self._down_until.pop(local.name, None)


def no_such_model(model: str | None) -> NoSuchModel:
    """The failure for a model that no provider has."""
    return NoSuchModel(f"There is no model {model!r:.100}.")
