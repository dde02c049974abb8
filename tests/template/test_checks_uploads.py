"""What the first hook says of uploads."""

from __future__ import annotations

import pytest

from scripts.checks import preprovision
from scripts.checks.uploads import find_problems
from tests.support import bicep
from tests.support.bicep_values import BicepFile
from tests.support.deployment import SEARCH_ID, parameters

UNIQUE_STRING = 13 * "x"  # what `uniqueString` of Bicep returns has this length
ON = {"AZURE_UPLOADS": "true"}
SIGN_IN = {"AZURE_AUTH_CLIENT_ID": "client"}
SERVICE = {"AZURE_EXISTING_SEARCH_ID": SEARCH_ID}


def test_uploads_without_sign_in_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert preprovision.main({**ON}, (3, 13)) == 1
    error = capsys.readouterr().err
    assert "AZURE_UPLOADS" in error
    assert "docs/sign-in.md" in error


@pytest.mark.parametrize("value", ["1", "true", "True", "TRUE"])
def test_uploads_with_sign_in_are_accepted(value: str) -> None:
    assert list(find_problems({"AZURE_UPLOADS": value, **SIGN_IN})) == []
    assert len(list(find_problems({"AZURE_UPLOADS": value}))) == 1


@pytest.mark.parametrize("value", ["", "0", "false", "F"])
def test_nothing_is_needed_without_uploads(value: str) -> None:
    environment = {"AZURE_UPLOADS": value, "AZURE_APP_SETTINGS": '{"RETRIEVER": "a.b:make"}'}

    assert list(find_problems(environment)) == []


@pytest.mark.parametrize("value", ["t", "T"])
def test_word_that_would_create_resources_without_deploying_is_refused(value: str) -> None:
    (problem,) = find_problems({"AZURE_UPLOADS": value, **SIGN_IN})

    assert "azd env set AZURE_UPLOADS true" in problem


def test_search_of_ones_own_is_refused() -> None:
    own = {"AZURE_APP_SETTINGS": '{"RETRIEVER": "a.b:make"}'}
    (problem,) = find_problems({**ON, **SIGN_IN, **own})

    assert "RETRIEVER" in problem


@pytest.mark.parametrize("settings", ["", "{}", "[]", "{", '{"RETRIEVER": ""}'])
def test_other_settings_of_the_app_are_accepted(settings: str) -> None:
    assert list(find_problems({**ON, **SIGN_IN, "AZURE_APP_SETTINGS": settings})) == []


@pytest.mark.parametrize("service", [{}, SERVICE])
def test_name_of_an_index_that_leaves_no_room_for_that_of_uploads_is_refused(
    service: dict[str, str],
) -> None:
    variables = {**ON, **SIGN_IN, **service}
    deployed = BicepFile("main.bicep", parameters(variables))
    index = str(deployed.evaluate(bicep.outputs("main.bicep")["AZURE_UPLOADS_INDEX_IN_USE"]))
    suffix = index.removeprefix("documents")
    longest = "d" * (128 - len(suffix.replace("uniquestring", UNIQUE_STRING)))
    (problem,) = find_problems({**variables, "AZURE_SEARCH_INDEX": f"{longest}d"})

    assert f"AZURE_SEARCH_INDEX has {len(longest) + 1} characters" in problem
    assert f"it may have {len(longest)}" in problem
    assert list(find_problems({**variables, "AZURE_SEARCH_INDEX": longest})) == []
    assert list(find_problems({**service, "AZURE_SEARCH_INDEX": f"{longest}d"})) == []
