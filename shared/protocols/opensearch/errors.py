"""OpenSearch's errors: their types and their JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.domain import errors
from shared.domain.errors import BadRequest, ChatError
from shared.http.json_encoding import Json
from shared.protocols.exchange import ErrorFormat


class ParsingError(BadRequest):
    """The form of a query is not supported."""


class IndexNotFound(errors.NotFound):
    """A search names another index than the one there is."""


# OpenSearch's types for our errors, the first match.
TYPES: Sequence[tuple[type[ChatError], str]] = (
    (ParsingError, "parsing_exception"),
    (IndexNotFound, "index_not_found_exception"),
    (errors.NotFound, "resource_not_found_exception"),
    (BadRequest, "illegal_argument_exception"),
    (errors.Unauthorized, "security_exception"),
    (errors.Forbidden, "security_exception"),
    (errors.MethodNotAllowed, "method_not_allowed_exception"),
    (errors.TooLarge, "content_too_long_exception"),
    (errors.UnsupportedMediaType, "media_type_header_exception"),
    (errors.TooManyRequests, "rejected_execution_exception"),
    (errors.Overloaded, "rejected_execution_exception"),
    (errors.Unsupported, "unsupported_operation_exception"),
    (errors.DeadlineExceeded, "timeout_exception"),
    (errors.Unavailable, "unavailable_exception"),
    (ChatError, "exception"),
)


def write_error(failure: ChatError, _body: Any) -> Json:
    """Format a failure."""
    kind = next(name for error_class, name in TYPES if isinstance(failure, error_class))
    field = f"{failure.field}: " if failure.field else ""
    cause = {"type": kind, "reason": f"{field}{failure.message}"}
    return {"error": {"root_cause": [cause], **cause}, "status": failure.status}


ERROR_FORMAT = ErrorFormat(name="opensearch", write_error=write_error)
