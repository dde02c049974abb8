"""Which of the models answers? The policy, what the request asks for, and what is down by now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from shared.chat.errors import (
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
from shared.chat.overrides import Policy
from shared.models.base import Model
from shared.models.fallback import FallbackOptions, SelectedModel

Side = Literal["local", "remote"]
Inline = Callable[[Mapping[str, Any], str | None], Model]
"""Makes the model of a provider that a request describes, and of a name. Raises ChatErrors."""

DOWN_SECONDS = 30.0  # for which a local model that failed is not waited for again
LONGEST_DOWN = 300.0  # however long its server asks us to wait
# What is worth not waiting for again. A refusal is soon there, and may be the request's own fault.
DOWN = (DeadlineExceeded, TooManyRequests, Unavailable)
INLINE = "remote_service_provider"  # what a provider is called that a request describes


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models, local or remote.

    `models` are its models' names, the first of which is its default: none where it has any that
    is asked for. `selects`: whether a request may choose among them. `made` gives the model of a
    name, of the provider's own choice for None. `card` is what is told of it.
    """

    name: str
    side: Side
    made: Callable[[str | None], Model]
    models: tuple[str, ...] = ()
    selects: bool = True
    available: bool = True
    card: Mapping[str, Any] = field(default_factory=dict)

    def has(self, model: str | None) -> bool:
        """Whether it can answer a request that names this model, or none."""
        return model is None or not self.selects or not self.models or model in self.models

    def model(self, name: str | None) -> Model:
        """Its model of that name; its default one where it lets nobody choose."""
        default = self.models[0] if self.models else None
        return self.made(name if name and self.selects else default)


@dataclass(frozen=True, slots=True)
class ModelSelection:
    """What a request asks for: None leaves it to the deployment. `request` is its id."""

    policy: Policy | None = None
    model: str | None = None
    remote: str | Mapping[str, Any] | None = None
    request: str = ""


def no_inline(_described: Mapping[str, Any], _model: str | None) -> Model:
    """What a deployment without an allow-list says to a provider that a request describes."""
    raise Forbidden(
        "remote_service_provider: this deployment calls no provider that a request describes "
        "(INLINE_PROVIDER_HOSTS)."
    )


class Router:
    """The models of a deployment, and the choice among them."""

    def __init__(
        self,
        providers: Sequence[Provider],
        policy: Policy = "default",
        inline: Inline = no_inline,
        seconds: float = 20,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seconds`: how long a local model may take where a remote one could answer instead."""
        self.providers, self.policy = tuple(providers), policy
        self._inline, self._seconds, self._now = inline, seconds, now
        self._down: dict[str, float] = {}  # until when, by the provider's name

    @classmethod
    def of(cls, model: Model) -> Router:
        """The choice among one."""
        return cls((Provider(model.name, "local", lambda _: model, (model.name,), selects=False),))

    @property
    def default(self) -> Model:
        """The model that answers where a request says nothing and all is well. Raises NoProvider.

        Where the policy allows none of those that there are, it is any of them.
        """
        if not (there := self._in_order()):
            raise NoProvider
        return there[0].model(None)

    @property
    def others(self) -> Sequence[Provider]:
        """The other providers that are available."""
        return self._in_order()[1:]

    def _in_order(self) -> list[Provider]:
        sides: tuple[Side, Side] = ("local", "remote")
        order = sides[::-1] if self.policy == "always_remote" else sides
        return [one for side in order for one in self._available(side)]

    def first(self, side: Side) -> str:
        """The name of a side's default provider; empty where the side has none."""
        there = [one for one in self.providers if one.side == side]
        return next((one.name for one in [*self._available(side), *there]), "")

    def choice(self, wish: ModelSelection) -> SelectedModel:
        """The models to ask. Raises NoProvider, NoSuchProvider, NoSuchModel, Forbidden,
        BadRequest."""
        policy = wish.policy or self.policy
        if policy == "always_remote":
            return SelectedModel(self._remote(wish)[1])
        if policy == "always_local":
            return SelectedModel(self._picked("local", wish.model).model(wish.model))
        try:
            local = self._picked("local", wish.model)
        except (NoProvider, NoSuchModel) as none:
            return SelectedModel(self._remote_or(wish, none)[1])
        try:
            far, other = self._remote(wish)
        except ChatError:  # there is nobody to fall back on: it is not looked at
            return SelectedModel(local.model(wish.model))
        if self._is_down(local):
            note = f"{far} was asked: {local.name} did not answer a short while ago."
            return SelectedModel(other, notes=[note])
        return SelectedModel(
            local.model(wish.model),
            FallbackOptions(
                other,
                self._seconds,
                failed=partial(self._failed, local),
                answered=partial(self._answered, local),
                names=(local.name, far),
                request=wish.request,
            ),
        )

    def _available(self, side: Side) -> list[Provider]:
        return [one for one in self.providers if one.side == side and one.available]

    def _picks(self, side: Side, model: str | None) -> list[Provider]:
        """The providers of a side that can answer; the default one first where it can."""
        return [one for one in self._available(side) if one.has(model)]

    def _picked(self, side: Side, model: str | None) -> Provider:
        if not self._available(side):
            raise NoProvider(f"No {side} provider is available.")
        return next(iter(self._picks(side, model)), None) or _missing(model)

    def _remote(self, wish: ModelSelection) -> tuple[str, Model]:
        """The remote model that is asked for, and the name of its provider."""
        if isinstance(wish.remote, Mapping):
            return INLINE, self._inline(wish.remote, wish.model)
        chosen = self._picked("remote", wish.model) if wish.remote is None else self._named(wish)
        return chosen.name, chosen.model(wish.model)

    def _named(self, wish: ModelSelection) -> Provider:
        named = [it for it in self.providers if (it.side, it.name) == ("remote", wish.remote)]
        if not named:
            raise NoSuchProvider(f"There is no remote provider {wish.remote!r:.100}.")
        if not named[0].available:
            raise NoProvider(f"The remote provider {named[0].name} is not available.")
        return named[0] if named[0].has(wish.model) else _missing(wish.model)

    def _remote_or(self, wish: ModelSelection, none: NoProvider | NoSuchModel) -> tuple[str, Model]:
        try:
            return self._remote(wish)
        except NoProvider as neither:
            if isinstance(none, NoSuchModel):
                raise none from None
            raise (neither if wish.remote else NoProvider()) from None

    def _is_down(self, local: Provider) -> bool:
        """Whether it failed a short while ago. Whoever comes first after that tries it again, and
        nobody else waits meanwhile."""
        until, now = self._down.get(local.name), self._now()
        if until is None:
            return False
        if now >= until:
            self._down[local.name] = now + max(self._seconds, DOWN_SECONDS)
        return now < until

    def _failed(self, local: Provider, failure: ChatError) -> None:
        if isinstance(failure, BadRequest) and failure.upstream_status is not None:
            self._answered(local)  # it is there, and does not take the question
        if isinstance(failure, DOWN):
            wait = getattr(failure, "retry_after", None) or DOWN_SECONDS
            self._down[local.name] = self._now() + min(max(wait, DOWN_SECONDS), LONGEST_DOWN)

    def _answered(self, local: Provider) -> None:
        self._down.pop(local.name, None)


def _missing(model: str | None) -> Provider:
    raise NoSuchModel(f"There is no model {model!r:.100}.")
