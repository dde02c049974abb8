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
 +- MethodNotAllowed 405      with the allowed methods
 +- RangeNotSatisfiable 416   with the file's size
 +- TooLarge 413 · UnsupportedMediaType 415
 +- TooManyRequests 429       with Retry-After
 +- Unsupported 501           not available in this app or this deployment
 +- Unavailable 503           with Retry-After: a retry may succeed
 +- Misconfigured 503         without: the operator must act; the log has the cause
 +- DeadlineExceeded 504      the app's own time limit
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import ClassVar

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
    """Sign-in is missing."""

    status = 401
    default = "Sign in to use this."


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


class Misconfigured(ChatError):
    """A setting, a role or a resource is missing: the operator must act."""

    status = 503
    default = "The app is not set up correctly. Its administrator finds the cause in the logs."


class DeadlineExceeded(ChatError):
    """The app's own time limit has passed."""

    status = 504
    default = "The answer took too long. Ask again, or ask a simpler question."


class ClientDisconnected(Exception):
    """The client disconnected before the response started."""
