"""What of a request can a model do? The request without the rest, and sentences about that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.chat.events import Source
from shared.chat.messages import Message
from shared.chat.request import ChatRequest
from shared.models.base import Model


def fit_to_model(
    request: ChatRequest, model: Model, client_prompts: bool
) -> tuple[ChatRequest, tuple[str, ...]]:
    """The request without what a model cannot do here, and a sentence for each such thing."""
    notes = [model.limits[name] for name in requested_capabilities(request) if name in model.limits]
    if request.overrides.is_requested("prompt_template") and not client_prompts:
        overrides = request.overrides.model_copy(update={"prompt_template": None})
        request = replace(request, overrides=overrides)
        notes.append(
            "prompt_template was left out: this deployment does not allow client prompts "
            "(ALLOW_CLIENT_PROMPTS)."
        )
    if "images" in model.limits:
        request, more = without_images(request, model)
        notes += more
    return request, tuple(notes)


def drop_images(sources: Sequence[Source]) -> tuple[Source, ...]:
    """The same passages, for a model that does not see."""
    return tuple(replace(source, image=None) for source in sources)


def without_images(request: ChatRequest, model: Model) -> tuple[ChatRequest, list[str]]:
    """The request for a model that does not see, and a sentence where it asked for images."""
    messages = tuple(
        drop_message_images(said) if said.images else said for said in request.messages
    )
    overrides = request.overrides.model_copy(update={"use_gpt4v": None})
    return replace(request, messages=messages, overrides=overrides), image_notes(request, model)


def image_notes(request: ChatRequest, model: Model) -> list[str]:
    """A sentence where the images of passages are asked for and the model does not see."""
    if not request.overrides.includes_images or "images" not in model.limits:
        return []
    return [f"use_gpt4v was left out: {model.name} is not known to see images; text was used."]


def drop_message_images(said: Message) -> Message:
    """A message without its images."""
    given = said.raw
    if given is not None:
        given = {key: it for key, it in given.items() if key != "images"}
        given = {**given, "content": said.content}
    return replace(said, images=(), raw=given)


def requested_capabilities(request: ChatRequest) -> list[str]:
    """What a request asks of the model beside an answer, by the names of `Model.limits`."""
    names = [name for name in ("temperature", "seed") if request.overrides.is_requested(name)]
    names += [name for name in request.generation.parameters if name not in ("images", "streaming")]
    images = any(message.images for message in request.messages)
    return ["images", *names] if images else names
