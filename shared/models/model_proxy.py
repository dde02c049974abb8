"""A model that delegates to another; subclasses override some of its methods."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from shared.models.base import Model, ModelStream, Prompt


@dataclass(frozen=True)
class ModelProxy:
    """A Model that delegates everything to `model`."""

    model: Model

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.name

    @property
    def max_prompt_tokens(self) -> int:
        """The budget of the model for a prompt."""
        return self.model.max_prompt_tokens

    @property
    def limits(self) -> Mapping[str, str]:
        """The limits of the model."""
        return self.model.limits

    def count(self, text: str) -> int:
        """Count tokens with the model."""
        return self.model.count(text)

    async def ready(self) -> None:
        """Check the model."""
        await self.model.ready()

    def open(self, prompt: Prompt) -> AbstractAsyncContextManager[ModelStream]:
        """Open the model."""
        return self.model.open(prompt)
