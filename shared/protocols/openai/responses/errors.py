"""Errors of the Responses API: as those of chat completions, with strings only.

`@ai-sdk/open-responses` shows no message where `param` or `code` is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.domain import errors
from shared.http.call import Json
from shared.protocols.openai import response
from shared.protocols.openai.request import FieldError

INVALID, MISSING, UNSUPPORTED = "invalid_value", "missing_required_parameter", "unsupported_value"
# The first match; without one the status decides.
CODES: Sequence[tuple[type[errors.ChatError], str]] = (
    (errors.Unauthorized, "invalid_api_key"),
    (errors.Forbidden, "permission_denied"),
    (errors.NoSuchModel, "model_not_found"),
    (errors.NotFound, "not_found"),
    (errors.TooManyRequests, "rate_limit_exceeded"),
    (errors.MethodNotAllowed, "method_not_allowed"),
    (errors.TooLarge, "request_too_large"),
    (errors.UnsupportedMediaType, "unsupported_media_type"),
    (errors.BadRequest, INVALID),
)


# Parameters of chat completions, by which a model's rejection is known, by their names here.
PARAMETERS: Mapping[str, str] = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning",
    "response_format": "text",
    "verbosity": "text",
}


class ParameterError(FieldError):
    """An error of one parameter, with the code of the error."""

    def __init__(self, field: str, message: str, code: str = INVALID) -> None:
        super().__init__(field, message)
        self.code = code


class PreviousResponseNotFound(ParameterError):
    """The previous response is not stored for this caller."""

    def __init__(self, message: str) -> None:
        super().__init__("previous_response_id", message, "previous_response_not_found")


class ItemNotFound(errors.NotFound):
    """A referenced item is not stored for this caller."""

    def __init__(self, id: str) -> None:
        super().__init__(
            f"input: an item with the id {id!r:.100} is not stored here. Send the item itself "
            "(store: false)."
        )


class ResponseNotFound(errors.NotFound):
    """There is no such response, or not for this caller."""

    def __init__(self, id: str) -> None:
        super().__init__(
            f"There is no response with the id {id!r:.100}: it was not stored, or it is not yours."
        )


def status(failure: errors.ChatError, body: Any = None) -> int:
    """Return the HTTP status: 400 for what the model rejected."""
    return response.status(failure, _with_chat_parameters(body))


def _with_chat_parameters(body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    return body | {theirs: body.get(ours) for theirs, ours in PARAMETERS.items()}


def write_error(failure: errors.ChatError, body: Any = None) -> Json:
    """Return the JSON of an error."""
    fields: Json = response.write_error(failure, _with_chat_parameters(body))["error"]
    if ours := PARAMETERS.get(fields["param"] or ""):
        message = fields["message"].replace(fields["param"], ours, 1)
        fields |= {"param": ours, "message": message}
    if isinstance(failure, ItemNotFound):
        fields |= {"param": "input", "code": "item_not_found"}
    elif isinstance(failure, ParameterError):
        fields["code"] = failure.code
    elif fields["code"] is None:
        fields["code"] = INVALID if status(failure, body) == 400 else code_of(failure)
    return {"error": {**fields, "param": fields["param"] or ""}}


def code_of(failure: errors.ChatError) -> str:
    """Return the code of an error."""
    return next((code for kind, code in CODES if isinstance(failure, kind)), "server_error")
