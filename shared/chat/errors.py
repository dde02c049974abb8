"""The ways a request can fail. The status is inside; the message is safe to show to the caller.

ChatError 500
 +- BadRequest 400            names the field where one is at fault
 |   +- ContentFiltered       the content filter flagged the question or the answer
 |   +- TooLong               longer than the model can take, even without its history
 +- Unauthorized 401 · Forbidden 403
 +- NotFound 404              not there, or not this user's: which of them is not told
 |   +- NoSuchModel           none of the providers that could be chosen has it
 |   +- NoSuchProvider        no remote provider is called so
 |   +- NoProvider            none that the policy allows is there
 +- MethodNotAllowed 405      with the methods that are allowed
 +- RangeNotSatisfiable 416   with the size that there is
 +- TooLarge 413 · UnsupportedMediaType 415
 +- TooManyRequests 429       with Retry-After
 +- Unsupported 501           what this deployment, or this app, does not have
 +- Unavailable 503           with Retry-After: asking again may help
 +- Misconfigured 503         without: only the operator can help; the log names the cause
 +- DeadlineExceeded 504      our own time limit
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import ClassVar

# The sentences of the protocol's documents ("Error response").
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
        """What the answer's headers say beside the body."""
        return {}


class _RetryLater(ChatError):
    def __init__(
        self, message: str = "", *, retry_after: float | None = None, cause: str | None = None
    ) -> None:
        super().__init__(message, cause=cause)
        self.retry_after = retry_after

    @property
    def headers(self) -> Mapping[str, str]:
        """How many whole seconds to wait, 1 or more."""
        return {"Retry-After": str(max(1, ceil(self.retry_after or 1)))}


class BadRequest(ChatError):
    """The request is wrong; the message says what to change."""

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
    """Signed in, and not one of those who may."""

    status = 403
    default = "You may not do this."


class NotFound(ChatError):
    """Nothing of that name, or nothing that this user may know of."""

    status = 404
    default = "There is no such document."


class NoSuchModel(NotFound):
    """A model of that name is none of those that could be chosen."""

    default = "There is no such model."


class NoSuchProvider(NotFound):
    """No remote provider has that name."""

    default = "There is no remote provider of that name."


class NoProvider(NotFound):
    """None of the providers that the policy allows is available."""

    default = "No provider is available."


class MethodNotAllowed(ChatError):
    """A route of ours, called with a method that it does not have."""

    status = 405

    def __init__(self, message: str, *, allow: str) -> None:
        super().__init__(message)
        self.allowed_methods = allow

    @property
    def headers(self) -> Mapping[str, str]:
        """The methods that the route has."""
        return {"Allow": self.allowed_methods}


class RangeNotSatisfiable(ChatError):
    """A part of a file that begins behind its end. `size` is the file's, in bytes."""

    status = 416

    def __init__(self, size: int) -> None:
        super().__init__(f"The document has {size} bytes: there is no such part of it.")
        self.size = size

    @property
    def headers(self) -> Mapping[str, str]:
        """How large the whole is."""
        return {"Content-Range": f"bytes */{self.size}"}


class TooLarge(ChatError):
    """The body is over its limit; decided while reading."""

    status = 413
    default = "The request is too large."


class UnsupportedMediaType(ChatError):
    """The body is of a kind that is not read here."""

    status = 415
    default = "Send the request as application/json."


class TooManyRequests(_RetryLater):
    """The model or the search service is at its limit."""

    status = 429
    default = "The service is busy. Wait a moment, then ask again."


class Unsupported(ChatError):
    """A part of a protocol that this deployment, or this app, does not have."""

    status = 501
    default = "This deployment does not offer this."


class Unavailable(_RetryLater):
    """The model or the search service cannot be reached, or its answer cannot be read."""

    status = 503
    default = "A service that the answer needs is not available. Wait a moment, then ask again."


class Misconfigured(ChatError):
    """The settings, a role or a resource is missing: only the operator can help."""

    status = 503
    default = "The app is not set up correctly. Its administrator finds the cause in the logs."


class DeadlineExceeded(ChatError):
    """Our own time limit passed."""

    status = 504
    default = "The answer took too long. Ask again, or ask a simpler question."


class ClientDisconnected(Exception):
    """The client left before the response began: nobody is there to be answered."""
