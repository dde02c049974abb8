"""Removes from a request what a model does not support, with a note for each removal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.domain.events import Source
from shared.domain.messages import Message
from shared.domain.request import ChatRequest
from shared.models.base import Model


def fit_to_model(
    request: ChatRequest, model: Model, client_prompts: bool
) -> tuple[ChatRequest, tuple[str, ...]]:
    """Return the request without unsupported options, and a note for each of them."""
    notes = [model.limits[name] for name in requested_capabilities(request) if name in model.limits]
    if request.overrides.is_requested("prompt_template") and not client_prompts:
        overrides = request.overrides.model_copy(update={"prompt_template": None})
        request = replace(request, overrides=overrides)
        notes.append(
            "prompt_template was left out: this deployment does not allow client prompts "
            "(ALLOW_CLIENT_PROMPTS)."
        )
    notes += image_notes(request, model)
    if "images" in model.limits:
        request = without_images(request)
    if "tools" in model.limits:  # they would take room in the prompt
        request = replace(request, generation=replace(request.generation, tools=()))
    return request, tuple(notes)


def drop_images(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Return the passages without their images."""
    return tuple(replace(source, image=None) for source in sources)


def without_images(request: ChatRequest) -> ChatRequest:
    """Return the request without images, and without the option to add those of passages."""
    messages = tuple(
        drop_message_images(message) if message.images else message for message in request.messages
    )
    overrides = request.overrides.model_copy(update={"use_gpt4v": None})
    return replace(request, messages=messages, overrides=overrides)


def image_notes(request: ChatRequest, model: Model) -> list[str]:
    """Return a note if the request asks for images of passages that the model does not support."""
    if not request.overrides.includes_images or "images" not in model.limits:
        return []
    return [f"use_gpt4v was left out: {model.name} is not known to see images; text was used."]


def drop_message_images(message: Message) -> Message:
    """Return a message without its images."""
    raw = message.raw
    if raw is not None:
        raw = {key: value for key, value in raw.items() if key != "images"}
        raw = {**raw, "content": message.content}
    return replace(message, images=(), raw=raw)


def requested_capabilities(request: ChatRequest) -> list[str]:
    """Return the capabilities that a request needs, by the names of `Model.limits`."""
    names = [name for name in ("temperature", "seed") if request.overrides.is_requested(name)]
    others = ("images", "tools", "streaming")  # no parameters
    names += [name for name in request.generation.parameters if name not in others]
    has_images = any(message.images for message in request.messages)
    present = {"images": has_images, "tools": bool(request.generation.tools)}
    return [*(name for name, value in present.items() if value), *names]
