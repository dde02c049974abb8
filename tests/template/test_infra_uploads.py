"""What infra/ deploys for uploads: who may do what, what is closed, and what both apps are told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from shared.settings import read_settings
from tests.support import bicep
from tests.support.bicep_values import BicepFile
from tests.support.deployment import (
    OPENAI_ID,
    PRIVATE,
    SEARCH_ID,
    SIGN_IN,
    deployment,
    parameters,
)
from tests.support.servers import ROOT

UPLOADS = {**SIGN_IN, "AZURE_UPLOADS": "true"}
ROLES_FILE = "modules/uploads_roles.bicep"
# https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
ROLE_IDS = {
    "storageBlobDataOwner": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "storageBlobDataContributor": "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    "storageQueueDataContributor": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
    "storageQueueDataMessageSender": "c6a89b2d-59bc-44d0-9896-0f6e12d7b80a",
    "searchIndexDataContributor": "8ebe5a00-799e-43f5-93ac-243d3dce84a7",
    "cognitiveServicesOpenAIUser": "5e0bd9bd-7b93-4f28-af87-19fc36ad61bd",
    "monitoringMetricsPublisher": "3913510d-42f4-4e42-8a64-420c390055eb",
}
CONTAINER, QUEUE = "storage::blobs::uploadContainer", "storage::queueService::uploadMessages"
ROLES = {  # principal, resource, role
    ("appPrincipalId", CONTAINER, "storageBlobDataContributor"),
    ("appPrincipalId", QUEUE, "storageQueueDataMessageSender"),
    ("readerPrincipalId", "storage", "storageBlobDataOwner"),
    ("readerPrincipalId", "storage", "storageQueueDataContributor"),
    ("readerPrincipalId", "search", "searchIndexDataContributor"),
    ("readerPrincipalId", "openAi", "cognitiveServicesOpenAIUser"),
    ("readerPrincipalId", "insights", "monitoringMetricsPublisher"),
}
CONDITIONS = {"search": "!empty(searchName)", "openAi": "!empty(openAiName)"}
MODELS = {"CHAT_MODEL", "MODEL_PROVIDERS"}
# What only one of the apps is told, or what is of its own identity and host.
OF_ITS_OWN = {
    "AzureWebJobsStorage__accountName": "uploadStorage.account.name",
    "AzureWebJobsStorage__blobServiceUri": "uploadStorage.account.properties.primaryEndpoints.blob",
    "AzureWebJobsStorage__queueServiceUri": (
        "uploadStorage.account.properties.primaryEndpoints.queue"
    ),
    "AzureWebJobsStorage__clientId": "uploadIdentity.identity.properties.clientId",
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": (
        "ClientId=uploadIdentity.identity.properties.clientId;Authorization=AAD"
    ),
    "AZURE_CLIENT_ID": "uploadIdentity.identity.properties.clientId",
}


def properties(resource: str, variables: Mapping[str, str] = UPLOADS) -> Any:
    """Return the properties of a resource, by module and symbol, for azd's variables."""
    module, symbol = resource.split(".")
    return deployment(variables)[module].properties(symbol)["properties"]


def settings_of(module: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the app settings of an app."""
    settings: dict[str, str] = deployment(variables)[module].parameters["settings"]
    return settings


def test_nothing_is_deployed_unless_a_variable_asks() -> None:
    modules = {name for name in deployment(SIGN_IN) if name.startswith("upload")}

    assert bicep.params("main.bicep")["takesUploads"].default == "false"
    assert modules == set()
    assert "UPLOADS" not in settings_of("app", SIGN_IN)


def test_identities_have_exactly_these_roles() -> None:
    roles = bicep.blocks("resource", ROLES_FILE).values()
    assignments = [
        (
            role.value("principalId"),
            role.value("scope"),
            re.findall(r"definitionIds\.(\w+)", role.value("roleDefinitionId"))[0],
        )
        for role in roles
    ]

    assert sorted(assignments) == sorted(ROLES)
    assert {role.value("principalType") for role in roles} == {"'ServicePrincipal'"}
    assert {role.value("scope"): role.condition for role in roles if role.condition} == CONDITIONS


def test_role_ids_are_those_of_azure_and_names_are_unique() -> None:
    text = bicep.text(ROLES_FILE)

    assert dict(re.findall(r"(?m)^  (\w+): '([0-9a-f-]{36})'", text)) == ROLE_IDS
    for role in bicep.blocks("resource", ROLES_FILE).values():
        what = role.value("roleDefinitionId").removesuffix(")").split(", ")[1]
        who, where = role.value("principalId"), role.value("scope")
        assert role.value("name") == f"guid({where}.id, {who}, {what})"


def test_roles_are_on_what_is_deployed() -> None:
    passed = deployment(UPLOADS)["uploadRoles"].parameters
    names = re.findall(r"(?m)^ +name: (uploadsName|'default'|storageName)$", bicep.text(ROLES_FILE))

    assert passed == {
        "appPrincipalId": "identity.identity.properties.principalId",
        "readerPrincipalId": "uploadIdentity.identity.properties.principalId",
        "storageName": "uploadStorage.account.name",
        "uploadsName": "uploads",
        "searchName": "search.service.name",
        "openAiName": "openAi.account.name",
        "insightsName": "monitoring.insights.name",
    }
    assert names == ["storageName", "'default'", "uploadsName", "'default'", "uploadsName"]


def test_services_that_existed_get_no_role_from_bicep() -> None:
    variables = {
        **UPLOADS,
        "AZURE_EXISTING_SEARCH_ID": SEARCH_ID,
        "AZURE_EXISTING_OPENAI_ID": OPENAI_ID,
    }
    roles = deployment(variables)["uploadRoles"]

    assert {"readerWritesIndex", "readerCallsModels"}.isdisjoint(roles.resources())
    assert roles["searchService"] == roles["openAiAccount"] == "none"  # never an empty name


def test_storage_keeps_nothing_that_is_deleted_and_has_no_keys() -> None:
    account = properties("uploadStorage.account")
    files = deployment(UPLOADS)["uploadStorage"]

    assert account["allowSharedKeyAccess"] is False
    assert account["allowBlobPublicAccess"] is False
    assert account["allowCrossTenantReplication"] is False
    assert account["supportsHttpsTrafficOnly"] is True
    assert account["minimumTlsVersion"] == "TLS1_2"
    assert properties("uploadStorage.blobs") == {
        "deleteRetentionPolicy": {"enabled": False},
        "containerDeleteRetentionPolicy": {"enabled": False},
        "isVersioningEnabled": False,
    }
    names = ("uploadContainer", "packageContainer", "uploadMessages", "failedMessages")
    assert [files.properties(name)["name"] for name in names] == [
        "uploads",
        "packages",
        "uploads",
        "uploads-poison",
    ]
    assert properties("uploadStorage.uploadContainer") == {"publicAccess": "None"}


@pytest.mark.parametrize(
    ("variables", "access", "action"),
    [({}, "Enabled", "Allow"), ({**PRIVATE, "AZURE_ALLOWED_IPS": "1.2.3.4"}, "Disabled", "Deny")],
)
def test_private_network_closes_the_storage_to_everybody(
    variables: dict[str, str], access: str, action: str
) -> None:
    account = properties("uploadStorage.account", {**UPLOADS, **variables})

    assert account["publicNetworkAccess"] == access
    assert account["networkAcls"]["defaultAction"] == action
    assert "ipRules" not in account["networkAcls"]


def test_private_endpoints_lead_to_files_and_messages() -> None:
    endpoints = deployment({**UPLOADS, **PRIVATE})["network"].parameters["endpoints"]
    own = [one for one in endpoints if one["resourceId"] == "uploadStorage.account.id"]

    assert [one["group"] for one in own] == ["blob", "queue"]
    assert len({one["name"] for one in endpoints}) == len(endpoints)


def test_storage_is_copied_as_chosen() -> None:
    variables = {**UPLOADS, "AZURE_STORAGE_SKU": "Standard_GZRS", "AZURE_ZONE_REDUNDANT": "true"}
    account = deployment(variables)["uploadStorage"].properties("account")

    assert account["sku"] == {"name": "Standard_GZRS"}
    assert properties("uploadReader.plan", variables)["zoneRedundant"] is True


def test_reader_takes_no_requests_and_no_passwords() -> None:
    site = properties("uploadReader.site")
    passwords = re.findall(
        r"name: '(ftp|scm)'\n +properties: { allow: (\w+) }",
        bicep.text("modules/uploads_app.bicep"),
    )

    assert site["httpsOnly"] is True
    assert site["siteConfig"]["minTlsVersion"] == "1.2"
    assert site["siteConfig"]["ipSecurityRestrictionsDefaultAction"] == "Deny"
    assert "ipSecurityRestrictions" not in site["siteConfig"]
    assert passwords == [("ftp", "false"), ("scm", "false")]


@pytest.mark.parametrize(
    ("variables", "access", "action", "addresses"),
    [
        ({}, "Enabled", "Allow", []),
        (PRIVATE, "Enabled", "Allow", []),
        ({**PRIVATE, "AZURE_PRIVATE_APP": "true"}, "Disabled", "Deny", []),
        (
            {**PRIVATE, "AZURE_PRIVATE_APP": "true", "AZURE_ALLOWED_IPS": "1.2.3.4, 5.6.7.0/24"},
            "Enabled",
            "Deny",
            ["1.2.3.4/32", "5.6.7.0/24"],
        ),
    ],
)
def test_reader_is_deployed_from_where_the_app_is(
    variables: dict[str, str], access: str, action: str, addresses: list[str]
) -> None:
    site = properties("uploadReader.site", {**UPLOADS, **variables})
    config = site["siteConfig"]

    assert site["publicNetworkAccess"] == access
    assert config["scmIpSecurityRestrictionsUseMain"] is False
    assert config["scmIpSecurityRestrictionsDefaultAction"] == action
    assert [rule["ipAddress"] for rule in config["scmIpSecurityRestrictions"]] == addresses


def test_reader_of_a_private_app_has_an_endpoint_for_deployments() -> None:
    variables = {**UPLOADS, **PRIVATE, "AZURE_PRIVATE_APP": "true"}
    (connection,) = properties("uploadEndpoint.endpoint", variables)[
        "privateLinkServiceConnections"
    ]

    assert connection["properties"] == {
        "privateLinkServiceId": "uploadReader.site.id",
        "groupIds": ["sites"],
    }
    assert bicep.existing("modules/uploads_endpoint.bicep") == {}  # its name is a text
    assert "name: 'privatelink.azurewebsites.net'" in bicep.text("modules/uploads_endpoint.bicep")
    main = bicep.blocks("module", "main.bicep")["uploadEndpoint"]
    assert main.value("dependsOn") == "[privateAppEndpoint]"


def test_reader_runs_the_python_of_the_project_as_its_own_identity() -> None:
    version = (ROOT / ".python-version").read_text("utf-8").strip()
    site = properties("uploadReader.site")
    config = site["functionAppConfig"]
    identity = "uploadIdentity.identity.id"

    assert config["runtime"] == {"name": "python", "version": version}
    assert config["scaleAndConcurrency"] == {"instanceMemoryMB": 2048, "maximumInstanceCount": 2}
    assert config["deployment"]["storage"] == {
        "type": "blobContainer",
        "value": "uploadStorage.account.properties.primaryEndpoints.blobpackages",
        "authentication": {
            "type": "UserAssignedIdentity",
            "userAssignedIdentityResourceId": identity,
        },
    }
    assert site["keyVaultReferenceIdentity"] == identity
    assert "dependsOn: [uploadRoles]" in bicep.text("main.bicep")


def test_azd_finds_the_reader_by_its_tag() -> None:
    site = deployment(UPLOADS)["uploadReader"].properties("site")

    assert site["tags"] == {"azd-env-name": "chat-dev", "azd-service-name": "uploads"}


@pytest.mark.parametrize("more", [{}, {"AZURE_EXISTING_SEARCH_ID": SEARCH_ID}])
def test_both_apps_are_told_the_same(more: dict[str, str]) -> None:
    own = {"AZURE_APP_SETTINGS": '{"MAX_UPLOADS": "7", "AZURE_UPLOADS_INDEX": "other"}'}
    variables = {**UPLOADS, **own, **more}
    app, reader = settings_of("app", variables), settings_of("uploadReader", variables)
    shared = reader.keys() & app.keys() - OF_ITS_OWN.keys()

    assert {name: reader[name] for name in shared} == {name: app[name] for name in shared}
    assert reader.keys() - shared - MODELS == OF_ITS_OWN.keys()
    assert {name: reader[name] for name in OF_ITS_OWN} == OF_ITS_OWN
    assert reader["MAX_UPLOADS"] == "7"
    assert reader["AZURE_UPLOADS_INDEX"] not in ("other", reader["AZURE_SEARCH_INDEX"])
    assert reader["AzureWebJobsStorage__credential"] == "managedidentity"


def test_reader_accepts_its_settings() -> None:
    addresses = ("AZURE_UPLOADS_ENDPOINT", "AZURE_UPLOADS_QUEUE_ENDPOINT", "AZURE_SEARCH_ENDPOINT")
    settings = settings_of("uploadReader", UPLOADS)
    read = read_settings(settings | dict.fromkeys(addresses, "https://x.example.com/"))

    assert read.uploads == "on"
    assert read.azure_uploads_index == "documents-uploads"
    assert read.azure_uploads_queue_endpoint == "https://x.example.com"


def test_reader_has_the_deployed_model_whatever_answers() -> None:
    own = {"AZURE_APP_SETTINGS": '{"CHAT_MODEL": "own.models:make", "MODEL_PROVIDERS": "a.yaml"}'}
    settings = settings_of("uploadReader", {**UPLOADS, **own})

    assert settings["CHAT_MODEL"] == "azure-openai"
    assert settings.get("MODEL_PROVIDERS", "") == ""


def test_outputs_name_what_the_hook_needs() -> None:
    names = [name for name in bicep.outputs("main.bicep") if "UPLOADS" in name]

    def values(variables: Mapping[str, str]) -> dict[str, Any]:
        file = BicepFile("main.bicep", parameters(variables))
        return {name: file.evaluate(bicep.outputs("main.bicep")[name]) for name in names}

    assert values(UPLOADS) == {
        "AZURE_UPLOADS_IN_USE": True,
        "AZURE_UPLOADS_INDEX_IN_USE": "documents-uploads",
        "SERVICE_UPLOADS_NAME": "uploadReader.site.name",
        "SERVICE_UPLOADS_IDENTITY_PRINCIPAL_ID": "uploadIdentity.identity.properties.principalId",
    }
    assert values({}) == {name: False if name.endswith("S_IN_USE") else "" for name in names}


@pytest.mark.parametrize(("variables", "is_told"), [(UPLOADS, True), (SIGN_IN, False)])
def test_mail_comes_when_an_upload_is_given_up(variables: dict[str, str], is_told: bool) -> None:
    alerts = deployment({**variables, "AZURE_ALERT_EMAIL": "we@example.com"})["alerts"]
    rules = {rule["name"]: rule for rule in alerts.evaluate("rules")}
    function = (ROOT / "ingest/app/function_app.py").read_text("utf-8")

    assert rules.keys() == {"errors", "quota", "flood"} | ({"uploads"} if is_told else set())
    if is_told:
        assert rules["uploads"]["query"] == 'requests | where name == "give_up_upload"'
        assert rules["uploads"]["threshold"] == 0
        assert "def give_up_upload(message" in function
