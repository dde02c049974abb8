"""The roles that the hook gives on resources that existed before, over a fake Resource Manager."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
from azure.core.pipeline.transport import AioHttpTransport

from scripts.existing_resources import ResourceManagerError, prepare_existing_resources
from scripts.switches import EXISTING_OPENAI
from tests.support import bicep
from tests.support.azurite import AzuriteCredential
from tests.support.resource_manager import (
    APP,
    BOTH_KINDS,
    OPENAI_ID,
    PERSON,
    SEARCH_ID,
    ResourceManager,
    search,
    serve,
)

KEYS_ONLY = {"authOptions": {"apiKeyOnly": {}}, "disableLocalAuth": False}
NO_KEYS = {"disableLocalAuth": True}


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be moved."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


class SkippingTransport(AioHttpTransport):  # type: ignore[misc]
    """The SDK's transport; its pauses pass at once."""

    async def sleep(self, duration: float) -> None:
        cast(SkippingLoop, asyncio.get_running_loop()).skipped += duration
        for _ in range(2):  # the loop calls what is due now, then cancels this
            await asyncio.sleep(0)


@pytest.fixture
def authority() -> trustme.CA:
    """A certificate authority that the client trusts."""
    return trustme.CA()


def prepare(fake: ResourceManager, authority: trustme.CA, **more: str) -> tuple[list[str], bool]:
    outputs = {
        "SERVICE_API_IDENTITY_PRINCIPAL_ID": APP,
        **more,
    }
    certificate = authority.issue_cert("127.0.0.1")
    with serve(fake, certificate.configure_cert) as url, authority.cert_pem.tempfile() as trusted:
        outputs["AZURE_RESOURCE_MANAGER_URL"] = url
        transport = SkippingTransport(connection_verify=more.pop("trusted", trusted))
        call = prepare_existing_resources(outputs, AzuriteCredential(), transport=transport)
        with asyncio.Runner(loop_factory=SkippingLoop) as runner:
            return runner.run(call)


def openai(value: str = OPENAI_ID) -> dict[str, str]:
    return {EXISTING_OPENAI: value}


def test_nothing_is_sent_where_all_resources_are_new(authority: trustme.CA) -> None:
    fake = ResourceManager()

    assert prepare(fake, authority, **search(""), **openai("")) == ([], True)
    assert fake.requests == []


def test_app_gets_the_roles_that_bicep_gives_on_new_resources(authority: trustme.CA) -> None:
    fake = ResourceManager()
    messages, complete = prepare(fake, authority, **search(), **openai())
    ids = dict(re_pairs(bicep.text("modules/roles.bicep")))

    assert complete
    assert len(messages) == 2
    assert [
        (path.split("/providers/Microsoft.Authorization/")[0].replace("%20", " "), body)
        for path, body in fake.assignments.items()
    ] == [
        (
            resource,
            {
                "roleDefinitionId": "/subscriptions/1b2c/providers/Microsoft.Authorization/"
                f"roleDefinitions/{ids[role]}",
                "principalId": APP,
                "principalType": "ServicePrincipal",
            },
        )
        for resource, role in (
            (SEARCH_ID, "searchIndexDataReader"),
            (OPENAI_ID, "cognitiveServicesOpenAIUser"),
        )
    ]


def re_pairs(text: str) -> list[tuple[str, str]]:
    lines = (line.strip().split(": '") for line in text.splitlines() if ": '" in line)
    return [(parts[0], parts[1].split("'")[0]) for parts in lines]


def test_who_indexes_may_call_an_existing_model_for_a_new_index(authority: trustme.CA) -> None:
    fake = ResourceManager()
    outputs = {
        "AZURE_INDEXER_ID": PERSON,
        "AZURE_INDEXERS_GROUP_ID_IN_USE": "group",
        "AZURE_SEARCH_PRINCIPAL_ID": "search-service",
    }
    prepare(fake, authority, **openai(), **outputs)

    assert [(one["principalId"], one["principalType"]) for one in fake.assignments.values()] == [
        (APP, "ServicePrincipal"),
        (PERSON, "User"),
        ("group", "Group"),
        ("search-service", "ServicePrincipal"),
    ]


def test_who_provisions_may_search_from_a_laptop(authority: trustme.CA) -> None:
    fake = ResourceManager()
    outputs = {"AZURE_INDEXER_ID": PERSON, "AZURE_INDEXER_TYPE": "ServicePrincipal"}
    prepare(fake, authority, **search(), **outputs)

    assert [(one["principalId"], one["principalType"]) for one in fake.assignments.values()] == [
        (APP, "ServicePrincipal"),
        (PERSON, "ServicePrincipal"),
    ]


def test_roles_that_somebody_else_gave_are_enough(authority: trustme.CA) -> None:
    fake = ResourceManager(statuses=[403], given=True)
    messages, complete = prepare(fake, authority, **search())

    assert complete
    assert messages == [f"Search Index Data Reader on {SEARCH_ID}: {APP} has it."]


@pytest.mark.parametrize("status", [200, 201])
def test_new_assignment_is_a_success(status: int, authority: trustme.CA) -> None:
    _, complete = prepare(ResourceManager(statuses=[status]), authority, **search())

    assert complete


def test_role_is_enough_where_the_service_may_not_be_read(authority: trustme.CA) -> None:
    _, complete = prepare(ResourceManager(statuses=[201, 403]), authority, **search())

    assert complete


def test_second_run_asks_for_the_same_assignments(authority: trustme.CA) -> None:
    first, second = ResourceManager(), ResourceManager(statuses=[409])
    prepare(first, authority, **search())
    messages, complete = prepare(second, authority, **search())

    assert complete
    assert f"{APP} has it" in messages[0]
    assert second.assignments.keys() == first.assignments.keys()


def test_command_is_printed_where_roles_may_not_be_given(
    authority: trustme.CA, tmp_path: Path
) -> None:
    messages, complete = prepare(ResourceManager(statuses=[403, 403]), authority, **search())
    command = messages[0].splitlines()[-1]
    (tmp_path / "az").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "az").chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert not complete
    assert len(messages) == 1
    assert "`azd hooks run postprovision`" in messages[0]
    assert done.stdout.splitlines() == [
        *("role", "assignment", "create", "--role", "Search Index Data Reader"),
        *("--scope", SEARCH_ID, "--assignee-object-id", APP),
        *("--assignee-principal-type", "ServicePrincipal"),
    ]


@pytest.mark.parametrize("properties", [KEYS_ONLY, {}, {"authOptions": None}])
def test_search_service_that_takes_keys_alone_is_named(
    properties: Mapping[str, Any], authority: trustme.CA
) -> None:
    messages, complete = prepare(ResourceManager(search=properties), authority, **search())

    assert not complete
    assert "accepts keys alone" in messages[1]
    words = shlex.split(messages[1].splitlines()[-1])
    assert words[:4] == ["az", "search", "service", "update"]
    assert {"their group", "theirs", "aadOrApiKey", "1b2c"} <= set(words)


@pytest.mark.parametrize("properties", [BOTH_KINDS, NO_KEYS])
def test_search_service_that_lets_identities_in_is_fine(
    properties: Mapping[str, Any], authority: trustme.CA
) -> None:
    assert prepare(ResourceManager(search=properties), authority, **search())[1]


@pytest.mark.parametrize("statuses", [[429], [503], [-1]])
def test_fault_that_passes_is_retried(statuses: list[int], authority: trustme.CA) -> None:
    fake = ResourceManager(statuses=list(statuses))
    _, complete = prepare(fake, authority, **openai())

    assert complete
    assert len(fake.requests) == 2
    assert len(fake.assignments) == 1


@pytest.mark.parametrize(("pauses", "seconds"), [(1, 110), (3, 35)])
def test_pause_that_resource_manager_asks_for_is_kept(
    pauses: int, seconds: float, authority: trustme.CA
) -> None:
    fake = ResourceManager(statuses=[429] * pauses, retry_after=seconds)

    assert prepare(fake, authority, **openai())[1]
    assert len(fake.requests) == pauses + 1


@pytest.mark.parametrize(("pauses", "seconds"), [(1, 130), (3, 45)])
def test_request_with_its_pauses_ends_after_two_minutes(
    pauses: int, seconds: float, authority: trustme.CA
) -> None:
    fake = ResourceManager(statuses=[429] * pauses, retry_after=seconds)
    with pytest.raises(ResourceManagerError, match=r"did not answer \(TimeoutError\)"):
        prepare(fake, authority, **openai())

    assert len(fake.requests) == pauses


@pytest.mark.parametrize(
    ("status", "hint"),
    [(404, "does it exist, in this tenant?"), (400, "its id must be a resource id.")],
)
def test_wrong_id_is_named(status: int, hint: str, authority: trustme.CA) -> None:
    with pytest.raises(ResourceManagerError) as failure:
        prepare(ResourceManager(statuses=[status]), authority, **search())

    assert str(failure.value) == f"Azure responds with {status} for {SEARCH_ID}: {hint}"


def test_untrusted_resource_manager_gets_no_token(authority: trustme.CA) -> None:
    fake = ResourceManager()
    with trustme.CA().cert_pem.tempfile() as other, pytest.raises(ResourceManagerError) as failure:
        prepare(fake, authority, **search(), trusted=other)

    assert "did not answer" in str(failure.value)
    assert "`azd hooks run postprovision`" in str(failure.value)
    assert fake.requests == []
