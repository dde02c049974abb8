"""How OpenSearch tells of a failure: its types for ours, and its shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.chat.errors import (
    BadRequest,
    ChatError,
    DeadlineExceeded,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unsupported,
    UnsupportedMediaType,
)
from shared.http.json_encoding import Json
from shared.protocols.exchange import ErrorFormat


class ParsingError(BadRequest):
    """A search that is written in a way that is not understood here."""


class IndexNotFound(NotFound):
    """A search of another index than the one there is."""


# What OpenSearch calls our failures; the first that fits.
TYPES: Sequence[tuple[type[ChatError], str]] = (
    (ParsingError, "parsing_exception"),
    (IndexNotFound, "index_not_found_exception"),
    (NotFound, "resource_not_found_exception"),
    (BadRequest, "illegal_argument_exception"),
    (Unauthorized, "security_exception"),
    (Forbidden, "security_exception"),
    (MethodNotAllowed, "method_not_allowed_exception"),
    (TooLarge, "content_too_long_exception"),
    (UnsupportedMediaType, "media_type_header_exception"),
    (TooManyRequests, "rejected_execution_exception"),
    (Unsupported, "unsupported_operation_exception"),
    (DeadlineExceeded, "timeout_exception"),
    (Unavailable, "unavailable_exception"),
    (ChatError, "exception"),
)


def error(failure: ChatError, _body: Any = None) -> Json:
    """A failure in OpenSearch's shape."""
    kind = next(name for error_class, name in TYPES if isinstance(failure, error_class))
    field = f"{failure.field}: " if failure.field else ""
    cause = {"type": kind, "reason": f"{field}{failure.message}"}
    return {"error": {"root_cause": [cause], **cause}, "status": failure.status}


ERROR_FORMAT = ErrorFormat(name="opensearch", error=error)
