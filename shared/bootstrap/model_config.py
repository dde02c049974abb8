"""Makes the configuration of a model from the settings that hold for all models."""

from __future__ import annotations

from typing import Any

from shared.settings import Settings


def make_model_config(settings: Settings, name: str, **more: Any) -> Any:
    """Make the configuration of a model: the settings for all models, and its own values."""
    from shared.models.formats.base import ModelConfig

    common = {
        "max_prompt_tokens": settings.prompt_tokens,
        "max_answer_tokens": settings.answer_tokens,
        "accept_seconds": settings.accept_seconds,
        "first_seconds": settings.first_seconds,
        "gap_seconds": settings.gap_seconds,
    }
    return ModelConfig(name=name, **common | more)
