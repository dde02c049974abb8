"""Translates pydantic's validation errors to messages, one for each type of error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

MAX_ERRORS = 3  # errors in one message


def describe_errors(failure: ValidationError, format_path: Callable[[str], str]) -> str:
    """Format the first errors, each with its path as `format_path` rewrites it."""
    errors = failure.errors(include_url=False, include_input=False)
    messages = [
        f"{format_path(_join_path(error['loc']))}: {describe_error(error)}"
        for error in errors[:MAX_ERRORS]
    ]
    return "; ".join(messages)


def _join_path(location: Sequence[int | str]) -> str:
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
