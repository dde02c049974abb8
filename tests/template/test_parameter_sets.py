"""What is deployed for sets of azd's variables as people choose them, without Azure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from scripts.checks import preprovision
from shared.settings import read_settings
from tests.support import bicep
from tests.support.bicep_values import RefusedError
from tests.support.deployment import (
    LOGS_ID,
    OPENAI_ID,
    PERSON,
    PRIVATE,
    SEARCH_ID,
    SIGN_IN,
    deployment,
    limits,
    parameters,
)

GROUP = "0f8fad5b-d9cb-469f-a165-70867728950e"

# Resources by module and symbol.
ALWAYS = {
    "identity.identity",
    "monitoring.insights",
    "hostStorage.account",
    "hostStorage.blobs",
    "hostStorage.folder",
    "documentStorage.account",
    "documentStorage.blobs",
    "documentStorage.folder",
    "app.plan",
    "app.site",
    "app.auth",
    "roles.appOwnsHostStorage",
    "roles.appReadsDocuments",
    "roles.appWritesTelemetry",
    "roles.indexersWriteDocuments",
}
LOGS = {"monitoring.workspace"}
SEARCH = {
    "search.service",
    "roles.appReadsIndex",
    "roles.indexersWriteIndex",
    "roles.indexersCreateIndex",
}
MODELS = {
    "openAi.account",
    "openAi.chat",
    "openAi.embedding",
    "roles.appAsksModels",
    "roles.indexersCallModels",
}
INDEXER = {"roles.searchReadsDocuments", "roles.searchAsksModels"}  # of a search with an identity
MEMORY = {"cosmos.account", "cosmos.sql", "cosmos.memory", "roles.appKeepsConversations"}
NETWORK = {
    "network.endpointRules",
    "network.appRules",
    "network.network",
    "network.zones",
    "network.privateEndpoints",
}
PRIVATE_APP = {f"privateAppEndpoint.{one}" for one in ("zone", "link", "endpoint", "names")}
UPLOADS = {
    "uploadIdentity.identity",
    "uploadStorage.account",
    "uploadStorage.blobs",
    "uploadStorage.uploadContainer",
    "uploadStorage.packageContainer",
    "uploadStorage.queueService",
    "uploadStorage.uploadMessages",
    "uploadStorage.failedMessages",
    "uploadReader.plan",
    "uploadReader.site",
    "uploadRoles.appWritesUploads",
    "uploadRoles.appSendsMessages",
    "uploadRoles.readerOwnsStorage",
    "uploadRoles.readerTakesMessages",
    "uploadRoles.readerWritesTelemetry",
}
UPLOADS_OF_NEW_SERVICES = {"uploadRoles.readerWritesIndex", "uploadRoles.readerCallsModels"}
DIAGNOSTICS = {
    "diagnosticSettings.documentLogs",
    "diagnosticSettings.searchLogs",
    "diagnosticSettings.modelLogs",
}
USUAL = ALWAYS | LOGS | SEARCH | MODELS | INDEXER


@dataclass(frozen=True)
class Case:
    """Variables beside those of PERSON, and what follows: resources, parameters, app settings."""

    variables: Mapping[str, str]
    resources: set[str]
    parameters: Mapping[str, Any] = field(default_factory=dict)  # by module and name
    settings: Mapping[str, str] = field(default_factory=dict)


CASES = {
    "defaults": Case(
        {},
        USUAL,
        {
            "app.subnetId": "",
            "app.allowedOrigins": [],
            "app.tags": {"azd-env-name": "chat-dev"},
            "search.sku": "basic",
            "openAi.location": "eastus2",
            "roles.indexers": [{"id": "person", "type": "User"}],
        },
        {
            "CALLERS": "keys",
            "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "default",
            "AZURE_COSMOS_ENDPOINT": "",
            "AZURE_UPLOADS_ENDPOINT": "",
            "MEMORY_DAYS": "",
            "ALLOWED_ORIGINS": "",
        },
    ),
    "sign-in": Case(
        {**SIGN_IN, "AZURE_AUTH_ALLOWED_CLIENTS": "web, phone", "AZURE_OPEN_TO_ALL": "true"},
        USUAL | MEMORY,
        {"app.authClientId": "client", "app.authAllowedClients": ["web", "phone"]},
        {
            "CALLERS": "signed-in",
            "AZURE_CLIENT_ID": "identity.identity.properties.clientId",
            "AZURE_COSMOS_DATABASE": "cosmos.sql.name",
            "AZURE_COSMOS_CONTAINER": "cosmos.memory.name",
            "MEMORY_DAYS": "90",
        },
    ),
    "sign-in without memory": Case(
        {**SIGN_IN, "AZURE_USE_MEMORY": "false"},
        USUAL,
        settings={"CALLERS": "signed-in", "AZURE_COSMOS_ENDPOINT": "", "MEMORY_DAYS": ""},
    ),
    "answer copies": Case(
        {**SIGN_IN, "AZURE_FEEDBACK_COPIES": "true"},
        USUAL | MEMORY | {"cosmos.answerCopies", "roles.appKeepsCopies"},
        {"cosmos.copies": "feedback", "roles.cosmosCopies": "feedback"},
        {"FEEDBACK_COPIES": "on"},
    ),
    "uploads": Case(
        {**SIGN_IN, "AZURE_UPLOADS": "true"},
        USUAL | MEMORY | UPLOADS | UPLOADS_OF_NEW_SERVICES,
        {"uploadReader.subnetId": "", "uploadReader.tags": {"azd-env-name": "chat-dev"}},
        {
            "UPLOADS": "on",
            "AZURE_UPLOADS_ENDPOINT": "uploadStorage.account.properties.primaryEndpoints.blob",
            "AZURE_UPLOADS_INDEX": "documents-uploads",
        },
    ),
    "uploads in a private network": Case(
        {**PRIVATE, **SIGN_IN, "AZURE_UPLOADS": "true", "AZURE_ALLOWED_IPS": "1.2.3.4"},
        USUAL | NETWORK | MEMORY | UPLOADS | UPLOADS_OF_NEW_SERVICES,
        {
            "uploadReader.subnetId": "network.network::appSubnet.id",
            "uploadReader.deployedPrivately": False,
        },
    ),
    "uploads of a private app": Case(
        {**PRIVATE, **SIGN_IN, "AZURE_UPLOADS": "true", "AZURE_PRIVATE_APP": "true"},
        USUAL
        | NETWORK
        | MEMORY
        | PRIVATE_APP
        | UPLOADS
        | UPLOADS_OF_NEW_SERVICES
        | {"uploadEndpoint.endpoint", "uploadEndpoint.names"},
        {"uploadReader.deployedPrivately": True, "uploadReader.deployingIps": []},
    ),
    "uploads beside existing services": Case(
        {
            **SIGN_IN,
            "AZURE_UPLOADS": "true",
            "AZURE_EXISTING_SEARCH_ID": SEARCH_ID,
            "AZURE_EXISTING_OPENAI_ID": OPENAI_ID,
        },
        ALWAYS | LOGS | MEMORY | UPLOADS,
        settings={"AZURE_UPLOADS_INDEX": "documents-uploads-uniquestring"},
    ),
    "private network": Case(
        {**PRIVATE, "AZURE_VNET_PREFIX": "10.8.0.0/22", "AZURE_ALLOWED_IPS": "1.2.3.4, 5.6.7.8"},
        USUAL | NETWORK,
        {
            "network.prefix": "10.8.0.0/22",
            "search.allowedIps": ["1.2.3.4", "5.6.7.8"],
            "documentStorage.allowedIps": ["1.2.3.4", "5.6.7.8"],
            "hostStorage.allowedIps": [],
            "app.subnetId": "network.network::appSubnet.id",
            "endpoints": ["host", "documents", "search", "openai"],
        },
    ),
    "private app": Case(
        {**PRIVATE, "AZURE_PRIVATE_APP": "true"},
        USUAL | NETWORK | PRIVATE_APP,
        {"app.closed": True, "app.allowedIps": [], "privateAppEndpoint.siteId": "app.site.id"},
    ),
    "private network with sign-in": Case(
        {**PRIVATE, **SIGN_IN},
        USUAL | NETWORK | MEMORY,
        {
            "cosmos.allowedIps": [],
            "endpoints": ["host", "documents", "search", "openai", "memory"],
        },
    ),
    "private network with existing services": Case(
        {**PRIVATE, "AZURE_EXISTING_SEARCH_ID": SEARCH_ID, "AZURE_EXISTING_OPENAI_ID": OPENAI_ID},
        ALWAYS | LOGS | NETWORK,
        {"endpoints": ["host", "documents"]},
    ),
    "knowledge base": Case(
        {"AZURE_USE_KNOWLEDGE_BASE": "true", "AZURE_KNOWLEDGE_EFFORT": "low"},
        USUAL,
        settings={
            "AZURE_SEARCH_KNOWLEDGE_BASE": "documents",
            "AZURE_SEARCH_KNOWLEDGE_EFFORT": "low",
            "AZURE_SEARCH_VECTORIZER": "true",
        },
    ),
    "free search": Case(
        {"AZURE_SEARCH_SKU": "free", "AZURE_SEARCH_REPLICAS": "3"},
        USUAL - INDEXER,  # it has no identity
        {"search.sku": "free", "search.replicas": 1, "search.semanticRanker": "disabled"},
        {"AZURE_SEARCH_SEMANTIC_CONFIGURATION": ""},
    ),
    "existing search": Case(
        {
            "AZURE_EXISTING_SEARCH_ID": SEARCH_ID,
            "AZURE_EXISTING_SEARCH_SEMANTIC_CONFIGURATION": "theirs",
            "AZURE_EXISTING_SEARCH_VECTORS": "false",
            "AZURE_SEARCH_INDEX": "manuals",
        },
        ALWAYS | LOGS | MODELS,
        settings={
            "AZURE_SEARCH_ENDPOINT": "https://theirs.search.windows.net",
            "AZURE_SEARCH_INDEX": "manuals",
            "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "theirs",
            "AZURE_OPENAI_CHAT_DEPLOYMENT": "openAi.chat.name",
            "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "",
        },
    ),
    "existing search and model": Case(
        {
            "AZURE_EXISTING_SEARCH_ID": SEARCH_ID,
            "AZURE_EXISTING_OPENAI_ID": OPENAI_ID,
            "AZURE_OPENAI_CHAT_MODEL": "our-chat",
            "AZURE_OPENAI_EMBEDDING_MODEL": "our-vectors",
        },
        ALWAYS | LOGS,
        settings={
            "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "",
            "AZURE_OPENAI_CHAT_DEPLOYMENT": "our-chat",
            "AZURE_OPENAI_EMBEDDING_DEPLOYMENT": "our-vectors",
        },
    ),
    "existing model": Case(
        {"AZURE_EXISTING_OPENAI_ID": OPENAI_ID},
        USUAL - MODELS - {"roles.searchAsksModels"},
        {"roles.searchName": "search.service.name", "roles.openAiName": ""},
    ),
    "existing logs": Case(
        {"AZURE_EXISTING_LOG_ANALYTICS_ID": LOGS_ID, "AZURE_DIAGNOSTICS": "true"},
        USUAL - LOGS | DIAGNOSTICS,
        {"diagnosticSettings.workspaceId": LOGS_ID},
    ),
    "diagnostics and alerts": Case(
        {
            **SIGN_IN,
            "AZURE_DIAGNOSTICS": "true",
            "AZURE_ALERT_EMAIL": "we@example.com",
            "AZURE_ALERT_ERRORS": "0",
            "AZURE_ALERT_REQUESTS": "5000",
        },
        USUAL
        | MEMORY
        | DIAGNOSTICS
        | {"alerts.mail", "alerts.alerts", "diagnosticSettings.conversationLogs"},
        {
            "diagnosticSettings.workspaceId": "monitoring.workspace.id",
            "alerts.email": "we@example.com",
            "alerts.errors": 0,
            "alerts.requests": 5000,
        },
    ),
    "production": Case(
        {
            **SIGN_IN,
            "AZURE_SEARCH_SKU": "standard2",
            "AZURE_ZONE_REDUNDANT": "true",
            "AZURE_COSMOS_BACKUP": "Continuous7Days",
            "AZURE_SEARCH_REPLICAS": "3",
            "AZURE_SEARCH_SEMANTIC_RANKER": "standard",
            "AZURE_STORAGE_SKU": "Standard_ZRS",
            "AZURE_ALWAYS_READY": "2",
            "AZURE_MAXIMUM_INSTANCES": "100",
            "AZURE_INSTANCE_MEMORY_MB": "4096",
            "AZURE_INSTANCE_CONCURRENCY": "32",
            "AZURE_OPENAI_CHAT_SKU": "DataZoneStandard",
            "AZURE_OPENAI_EMBEDDING_SKU": "Standard",
            "AZURE_OPENAI_CHAT_CAPACITY": "500",
            "AZURE_OPENAI_EMBEDDING_CAPACITY": "300",
            "AZURE_LOG_RETENTION_DAYS": "90",
            "AZURE_LOG_DAILY_GB": "-1",
            "AZURE_MEMORY_DAYS": "0",
            "AZURE_SEARCH_LOCATION": "uksouth",
            "AZURE_COSMOS_LOCATION": "westeurope",
            "AZURE_ALLOWED_ORIGINS": "https://chat.example.com, https://www.example.com",
            "AZURE_TAGS": '{"owner": "us", "azd-env-name": "other"}',
            "AZURE_APP_SETTINGS": '{"DEFAULT_TOP": "8"}',
        },
        USUAL | MEMORY,
        {
            "search.sku": "standard2",
            "app.zoneRedundant": True,
            "cosmos.backup": "Continuous7Days",
            "search.replicas": 3,
            "search.semanticRanker": "standard",
            "search.location": "uksouth",
            "cosmos.location": "westeurope",
            "hostStorage.sku": "Standard_ZRS",
            "documentStorage.sku": "Standard_ZRS",
            "app.alwaysReady": 2,
            "app.maximumInstanceCount": 100,
            "app.instanceMemoryMB": 4096,
            "app.perInstanceConcurrency": 32,
            "app.allowedOrigins": ["https://chat.example.com", "https://www.example.com"],
            "app.tags": {"owner": "us", "azd-env-name": "chat-dev"},
            "openAi.chatSku": "DataZoneStandard",
            "openAi.embeddingSku": "Standard",
            "openAi.chatCapacity": 500,
            "openAi.embeddingCapacity": 300,
            "monitoring.retentionDays": 90,
            "monitoring.dailyGb": -1,
        },
        {
            "MEMORY_DAYS": "0",
            "DEFAULT_TOP": "8",
            "ALLOWED_ORIGINS": "https://chat.example.com,https://www.example.com",
        },
    ),
    "names": Case(
        {"AZURE_RESOURCE_NAMES": '{"search": "contoso-search", "logs": "contoso-logs"}'},
        USUAL,
        {
            "search.name": "contoso-search",
            "monitoring.workspaceName": "contoso-logs",
            "app.planName": "plan-uniquestring",
        },
    ),
    "open to all": Case({"AZURE_OPEN_TO_ALL": "true"}, USUAL, settings={"CALLERS": "anyone"}),
    "client key": Case(
        {"AZURE_CHAT_API_KEY": "k" * 20}, USUAL, {"app.chatApiKey": "k" * 20}, {"CALLERS": "keys"}
    ),
    "pipeline": Case(
        {
            "AZURE_PRINCIPAL_ID": "runner",
            "AZURE_PRINCIPAL_TYPE": "ServicePrincipal",
            "AZURE_INDEXERS_GROUP_ID": GROUP,
        },
        USUAL,
        {
            "roles.indexers": [
                {"id": "runner", "type": "ServicePrincipal"},
                {"id": GROUP, "type": "Group"},
            ]
        },
    ),
    "who provisions as the group": Case(
        {"AZURE_PRINCIPAL_ID": GROUP, "AZURE_INDEXERS_GROUP_ID": GROUP.upper()},
        USUAL,
        {"roles.indexers": [{"id": GROUP, "type": "User"}]},
    ),
    "addresses without a network": Case(
        {"AZURE_ALLOWED_IPS": "1.2.3.4"}, USUAL, {"search.allowedIps": [], "openAi.allowedIps": []}
    ),
    "nobody indexes": Case(
        {"AZURE_PRINCIPAL_ID": ""},
        {one for one in USUAL if not one.startswith("roles.indexers")},
        {"roles.indexers": []},
    ),
}
REFUSED = {
    "AZURE_PRIVATE_APP": {"AZURE_PRIVATE_APP": "true"},
    "AZURE_SEARCH_SKU": {**PRIVATE, "AZURE_SEARCH_SKU": "free"},
    "AZURE_ALLOWED_ORIGINS": {"AZURE_ALLOWED_ORIGINS": "https://chat.example.com,*"},
    "AZURE_ZONE_REDUNDANT": {"AZURE_ZONE_REDUNDANT": "true", "AZURE_STORAGE_SKU": "Standard_GRS"},
    "AZURE_CHAT_API_KEY": {"AZURE_CHAT_API_KEY": "k" * 19},
    "AZURE_FEEDBACK_COPIES": {"AZURE_FEEDBACK_COPIES": "true"},
    "AZURE_UPLOADS": {"AZURE_UPLOADS": "true"},
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@each_case
def test_variables_exist_and_are_accepted(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {**PERSON, **case.variables}

    assert environment.keys() <= {variable for _, variable, _ in bicep.parameters_file()}
    assert preprovision.main(environment, (3, 13)) == 0
    assert capsys.readouterr().err == ""


@each_case
def test_values_are_within_the_limits_of_their_parameters(case: Case) -> None:
    types: dict[str, type] = {"string": str, "bool": bool, "int": int, "object": dict}
    for name, value in parameters(case.variables).items():
        param = bicep.params("main.bicep")[name]
        limit = limits(param)

        size = value if isinstance(value, int) else len(value)
        unit = "Value" if isinstance(value, int) else "Length"
        assert type(value) is types[param.kind], name
        assert value in limit.get("allowed", [value]), name
        assert limit.get(f"min{unit}", size) <= size <= limit.get(f"max{unit}", size), name


@each_case
def test_resources_are_those_of_the_choice(case: Case) -> None:
    modules = deployment(case.variables)
    resources = {f"{name}.{one}" for name, module in modules.items() for one in module.resources()}

    assert resources == case.resources


@each_case
def test_modules_get_the_values_of_the_choice(case: Case) -> None:
    modules = deployment(case.variables)
    values = {
        f"{name}.{key}": value
        for name, module in modules.items()
        for key, value in module.parameters.items()
    }
    values["endpoints"] = [one["name"] for one in values.get("network.endpoints", [])]
    private = case.variables.get("AZURE_USE_VNET") == "true"
    closed = {name: value for name, value in values.items() if name.endswith(".closed")}

    assert {name: values[name] for name in case.parameters} == case.parameters
    assert closed.pop("app.closed") == (case.variables.get("AZURE_PRIVATE_APP") == "true")
    assert set(closed.values()) == {private}


@each_case
def test_app_accepts_the_settings_of_the_choice(case: Case) -> None:
    settings = deployment(case.variables)["app"].parameters["settings"]
    # The addresses that only Azure knows.
    addresses = {
        name: "https://x.example.com/"
        for name, value in settings.items()
        if name.endswith("_ENDPOINT") and value and not value.startswith("https://")
    }
    read = read_settings({**settings, **addresses})

    assert {name: settings[name] for name in case.settings} == case.settings
    assert read.callers == settings["CALLERS"]


@pytest.mark.parametrize("name", REFUSED)
def test_choice_that_azure_would_refuse_later_is_named(name: str) -> None:
    with pytest.raises(RefusedError, match=name):
        deployment(REFUSED[name])


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("AZURE_SEARCH_SEMANTIC_RANKER", {"AZURE_SEARCH_SKU": "free"}),
        ("AZURE_APP_SETTINGS", {"AZURE_EXISTING_SEARCH_ID": SEARCH_ID}),
    ],
)
def test_service_without_a_knowledge_base_is_named(name: str, others: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match=name):
        deployment({"AZURE_USE_KNOWLEDGE_BASE": "true", **others})
