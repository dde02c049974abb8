"""A model around another: it is in everything as that one, until a subclass says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from shared.models.base import Model, ModelStream, Prompt


@dataclass(frozen=True)
class ModelProxy:
    """A Model that hands everything on to `model`."""

    model: Model

    @property
    def name(self) -> str:
        """The model's own."""
        return self.model.name

    @property
    def max_prompt_tokens(self) -> int:
        """The model's own."""
        return self.model.max_prompt_tokens

    @property
    def limits(self) -> Mapping[str, str]:
        """The model's own."""
        return self.model.limits

    def count(self, text: str) -> int:
        """As the model does."""
        return self.model.count(text)

    async def ready(self) -> None:
        """As the model does."""
        await self.model.ready()

    def open(self, prompt: Prompt) -> AbstractAsyncContextManager[ModelStream]:
        """As the model does."""
        return self.model.open(prompt)
