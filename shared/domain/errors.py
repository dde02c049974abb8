"""The errors of a request, with HTTP status and a message that is safe to show to the caller.

ChatError 500
 +- BadRequest 400            with the invalid field, if one is at fault
 |   +- ContentFiltered       the content filter flagged the question or the answer
 |   +- TooLong               too long for the model, even without history
 +- Unauthorized 401 · Forbidden 403
 +- NotFound 404              missing, or not accessible to this user: not distinguished
 |   +- NoSuchModel           no selectable provider has this model
 |   +- NoSuchProvider        no remote provider has this name
 |   +- NoProvider            no provider that the policy allows is available
 |   +- NoSuchRoute           no route has this path
 +- MethodNotAllowed 405      with the allowed methods
 +- RangeNotSatisfiable 416   with the file's size
 +- TooLarge 413 · UnsupportedMediaType 415
 +- TooManyRequests 429       with Retry-After
 +- Unsupported 501           not available in this app or this deployment
 +- Unavailable 503           with Retry-After: a retry may succeed
 |   +- Overloaded            this instance has as many answers in progress as it may have
 +- Misconfigured 503         without: the operator must act; the log has the cause
 +- DeadlineExceeded 504      the app's own time limit
     +- RequestTimeout 408    the limit of the time in which a body must arrive"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any, ClassVar

# Quoted from the protocol's documentation ("Error response").
UNEXPECTED_MESSAGE = (
    "The app encountered an error processing your request.\n"
    "If you are an administrator of the app, view the full error in the logs."
)
FILTERED_MESSAGE = "Your message contains content that was flagged by the OpenAI content filter."


class ChatError(Exception):
    """A failure that is reported to the caller.

    `field` names the invalid part of the request in this app's own terms; the protocol's dialect
    translates it to the path that the client used. `cause` is only logged. `from_model`: the model
    alone failed; `upstream_status` and `upstream_param` are the status and the parameter of its
    error response.
    """

    status: ClassVar[int] = 500
    default: ClassVar[str] = UNEXPECTED_MESSAGE

    def __init__(
        self, message: str = "", *, field: str | None = None, cause: str | None = None
    ) -> None:
        super().__init__(message or self.default)
        self.message = message or self.default
        self.field = field
        self.cause = cause
        self.from_model = False
        self.upstream_status: int | None = None
        self.upstream_param: str | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """Additional response headers."""
        return {}


class _RetryLater(ChatError):
    def __init__(
        self, message: str = "", *, retry_after: float | None = None, cause: str | None = None
    ) -> None:
        super().__init__(message, cause=cause)
        self.retry_after = retry_after

    @property
    def headers(self) -> Mapping[str, str]:
        """Retry-After in whole seconds, 1 or more."""
        return {"Retry-After": str(max(1, ceil(self.retry_after or 1)))}


class BadRequest(ChatError):
    """The request is invalid; the message says what to change."""

    status = 400
    default = "The request is not valid."


class ContentFiltered(BadRequest):
    """The model's content filter flagged the question or the answer."""

    default = FILTERED_MESSAGE


class TooLong(BadRequest):
    """The conversation does not fit the model, even after trimming."""

    default = "The question is too long for the model. Ask a shorter one."


class Unauthorized(ChatError):
    """Sign-in is missing, or not enough: `challenge` is then the value of `WWW-Authenticate`."""

    status = 401
    default = "Sign in to use this."

    def __init__(self, message: str = "", *, challenge: str = "", cause: str | None = None) -> None:
        super().__init__(message, cause=cause)
        self.challenge = challenge

    @property
    def headers(self) -> Mapping[str, str]:
        """The challenge, if there is one."""
        return {"WWW-Authenticate": self.challenge} if self.challenge else {}


class Forbidden(ChatError):
    """The user lacks permission."""

    status = 403
    default = "You do not have permission to do this."


class NotFound(ChatError):
    """The resource does not exist, or this user has no access to it."""

    status = 404
    default = "There is no such document."


class NoSuchModel(NotFound):
    """No selectable provider has a model of that name."""

    default = "There is no such model."


class NoSuchProvider(NotFound):
    """No remote provider has that name."""

    default = "There is no remote provider of that name."


class NoProvider(NotFound):
    """None of the providers that the policy allows is available."""

    default = "No provider is available."


class NoSuchRoute(NotFound):
    """No route of the protocol has that path."""

    default = "There is nothing at this path."


class MethodNotAllowed(ChatError):
    """The route does not support the method."""

    status = 405

    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allowed_methods = allow

    @property
    def headers(self) -> Mapping[str, str]:
        """The methods that the route supports."""
        return {"Allow": self.allowed_methods}


class RangeNotSatisfiable(ChatError):
    """The requested range begins behind the end of the file. `size` is the file's, in bytes."""

    status = 416

    def __init__(self, size: int) -> None:
        super().__init__(f"The document has {size} bytes: the range begins behind its end.")
        self.size = size

    @property
    def headers(self) -> Mapping[str, str]:
        """The size of the whole file."""
        return {"Content-Range": f"bytes */{self.size}"}


class TooLarge(ChatError):
    """The body exceeds its limit; raised while reading."""

    status = 413
    default = "The request is too large."


class UnsupportedMediaType(ChatError):
    """The media type or encoding of the body is not supported."""

    status = 415
    default = "Send the request as application/json."


class TooManyRequests(_RetryLater):
    """The model or the search service is over its rate limit."""

    status = 429
    default = "The service is busy. Wait a moment, then ask again."


class Unsupported(ChatError):
    """This app, or this deployment, does not support this part of the protocol."""

    status = 501
    default = "This deployment does not offer this."


class Unavailable(_RetryLater):
    """The model or the search service cannot be reached, or its response is invalid."""

    status = 503
    default = "A service that the answer needs is not available. Wait a moment, then ask again."


class Overloaded(Unavailable):
    """This instance has as many answers in progress as it may have."""

    default = "Too many questions are being answered at the moment. Wait a moment, then ask again."


class Misconfigured(ChatError):
    """A setting, a role or a resource is missing: the operator must act."""

    status = 503
    default = "The app is not set up correctly. Its administrator finds the cause in the logs."


class DeadlineExceeded(ChatError):
    """The app's own time limit has passed."""

    status = 504
    default = "The answer took too long. Ask again, or ask a simpler question."


class RequestTimeout(DeadlineExceeded):
    """The body did not arrive in time."""

    status = 408
    default = "The request did not arrive in time. Send it again."


class ClientDisconnected(Exception):
    """The client disconnected before the response started."""


def join_path(location: Iterable[int | str]) -> str:
    """Join the parts of a location: `messages[0].content`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")


# {} are filled from pydantic's context of the error: limits or names, never the invalid value.
MESSAGES: Mapping[str, str] = {
    "missing": "is required",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "literal_error": "must be one of {expected}",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "finite_number": "must be a number within the range of numbers",
    "value_error": "{error}",
    "extra_forbidden": "is not known here",
    "string_pattern_mismatch": "must be one word, such as an id of Entra ID",
    "json_invalid": "must be JSON",
    "too_long": "must have {max_length} entries at most",
    "too_short": "must not be empty",
    "string_too_long": "must have {max_length} characters at most",
    "string_too_short": "must not be empty",
}


def describe_error(error: Mapping[str, Any]) -> str:
    """Format the message of an entry of `ValidationError.errors()`."""
    context = {name: _drop_fraction(value) for name, value in error.get("ctx", {}).items()}
    return MESSAGES.get(error["type"], "has a wrong value").format(**context)


def _drop_fraction(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
