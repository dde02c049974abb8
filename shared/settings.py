"""Turns the environment that `function_app.py` hands it into settings, or into what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.sentences import sentence

MIB = 1024 * 1024


class SettingsError(Exception):
    """Settings that are missing or wrong: all of them at once, by name, never by value."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


Name = Annotated[str, Field(min_length=1)]


class Settings(BaseModel):
    """What a deployment may set. Every field's alias is the name of its app setting."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    chat_model: Name = Field(default="demo", alias="CHAT_MODEL")
    allow_client_prompts: bool = Field(default=False, alias="ALLOW_CLIENT_PROMPTS")
    default_top: int = Field(default=3, ge=1, le=50, alias="DEFAULT_TOP")
    default_temperature: float = Field(default=0.3, ge=0, le=2, alias="DEFAULT_TEMPERATURE")
    json_limit: int = Field(default=4 * MIB, ge=1, alias="MAX_JSON_BYTES")
    form_limit: int = Field(default=20 * MIB, ge=1, alias="MAX_FORM_BYTES")
    answer_seconds: float = Field(default=120, gt=0, le=540, alias="ANSWER_TIMEOUT_SECONDS")
    force_security_filters: bool = Field(default=True, alias="FORCE_SECURITY_FILTERS")
    sign_in: bool = Field(default=False, alias="WEBSITE_AUTH_ENABLED")


def read(environment: Mapping[str, str]) -> Settings:
    """The settings of an environment. An empty string is "unset": azd writes those.

    Raises SettingsError that names every wrong setting.
    """
    given = {key: value.strip() for key, value in environment.items() if value.strip()}
    try:
        return Settings.model_validate(given)
    except ValidationError as failure:
        errors = failure.errors(include_url=False, include_input=False)
        problems = tuple(f"{error['loc'][0]} {sentence(error)}" for error in errors)
        raise SettingsError(problems) from None
