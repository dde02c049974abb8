"""The values in infra/ that decide who gets in, what is kept and what it costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from scripts.app_registration import SCOPE, VISUAL_STUDIO_CODE
from tests.support import bicep
from tests.support.bicep_values import BicepFile
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

# https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
ROLE_IDS = {
    "storageBlobDataOwner": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "storageBlobDataContributor": "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    "storageBlobDataReader": "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1",
    "searchIndexDataReader": "1407120a-92aa-4202-b7e9-c0e197c71c8f",
    "searchIndexDataContributor": "8ebe5a00-799e-43f5-93ac-243d3dce84a7",
    "searchServiceContributor": "7ca78c08-252a-4471-8644-bb5ff32d4ba0",
    "cognitiveServicesOpenAIUser": "5e0bd9bd-7b93-4f28-af87-19fc36ad61bd",
    "monitoringMetricsPublisher": "3913510d-42f4-4e42-8a64-420c390055eb",
    "cosmosDbBuiltInDataContributor": "00000000-0000-0000-0000-000000000002",
}
LIMITS = {  # the least and the most that Azure accepts
    "searchReplicas": (1, 12),
    "maximumInstanceCount": (1, 1000),
    "perInstanceConcurrency": (1, 1000),
    "alwaysReady": (0, 1000),
    "memoryDays": (0, 24855),
    "logRetentionDays": (30, 730),
}
WITH_ADDRESS = {**PRIVATE, "AZURE_ALLOWED_IPS": "1.2.3.4"}
APP_ID = "identity.identity.id"


def properties(resource: str, variables: Mapping[str, str] | None = None) -> Any:
    """Return the properties of a resource, by module and symbol, for azd's variables."""
    module, symbol = resource.split(".")
    return deployment(variables or {})[module].properties(symbol)["properties"]


def output(name: str, variables: Mapping[str, str]) -> Any:
    """Return the value of an output of main.bicep."""
    return BicepFile("main.bicep", parameters(variables)).evaluate(
        bicep.outputs("main.bicep")[name]
    )


@pytest.mark.parametrize(
    ("name", "value"),
    {
        "AZURE_LOCATION": "swedencentral",
        "AZURE_TENANT_ID": "tenant.tenantId",
        "AZURE_RESOURCE_GROUP": "rg-chat-dev",
        "SERVICE_API_NAME": "app.site.name",
        "SERVICE_API_URI": "https://app.site.properties.defaultHostName",
        "SERVICE_API_CALLERS": "signed-in",
        "SERVICE_API_IDENTITY_PRINCIPAL_ID": "identity.identity.properties.principalId",
        "AZURE_STORAGE_ENDPOINT": "documentStorage.account.properties.primaryEndpoints.blob",
        "AZURE_STORAGE_ID": "documentStorage.account.id",
        "AZURE_RESOURCE_MANAGER_URL": "environment.resourceManager",
        "AZURE_INDEXER_ID": "person",
        "AZURE_INDEXER_TYPE": "ServicePrincipal",
        "AZURE_INDEXERS_GROUP_ID_IN_USE": "writers",
        "AZURE_SEARCH_PRINCIPAL_ID": "",
        "AZURE_EXISTING_SEARCH_ID_IN_USE": SEARCH_ID,
        "AZURE_EXISTING_OPENAI_ID_IN_USE": OPENAI_ID,
        "AZURE_VNET_IN_USE": True,
        "AZURE_ALLOWED_IPS_IN_USE": "1.2.3.4",
    }.items(),
)
def test_output_says_what_was_deployed(name: str, value: object) -> None:
    variables = {
        **WITH_ADDRESS,
        **SIGN_IN,
        "AZURE_PRINCIPAL_TYPE": "ServicePrincipal",
        "AZURE_INDEXERS_GROUP_ID": "writers",
        "AZURE_EXISTING_SEARCH_ID": SEARCH_ID,
        "AZURE_EXISTING_OPENAI_ID": OPENAI_ID,
    }

    assert output(name, variables) == value


def test_identity_of_a_new_search_is_an_output() -> None:
    assert output("AZURE_SEARCH_PRINCIPAL_ID", {}) == "search.service.identity.principalId"
    assert output("AZURE_SEARCH_PRINCIPAL_ID", {"AZURE_SEARCH_SKU": "free"}) == ""


def test_group_is_named_after_the_environment() -> None:
    group = BicepFile("main.bicep", parameters({})).properties("group")

    assert (group["name"], group["location"]) == ("rg-chat-dev", PERSON["AZURE_LOCATION"])


@pytest.mark.parametrize("module", ["roles", "diagnosticSettings"])
def test_names_of_existing_services_are_never_empty(module: str) -> None:
    """Resource Manager refuses an empty name also where the condition is false."""
    variables = {
        "AZURE_DIAGNOSTICS": "true",
        "AZURE_EXISTING_SEARCH_ID": SEARCH_ID,
        "AZURE_EXISTING_OPENAI_ID": OPENAI_ID,
    }
    file = deployment(variables)[module]
    names = bicep.existing(file.file)

    assert {"search", "openAi", "cosmos"} <= names.keys()
    assert [name for name in names.values() if not file[name]] == []


@pytest.mark.parametrize(
    ("named", "declared", "name"),
    [
        ("", {"group"}, "rg-chat-dev"),
        ("rg-chat-dev", {"group"}, "rg-chat-dev"),  # the output of the first run
        ("RG-Chat-Dev", {"group"}, "RG-Chat-Dev"),
        ("shared", set(), "shared"),
    ],
)
def test_group_that_exists_is_not_declared(named: str, declared: set[str], name: str) -> None:
    """`azd down` deletes the groups that a deployment declares, with what others have in them."""
    variables = {"AZURE_RESOURCE_GROUP": named}
    main = BicepFile("main.bicep", parameters(variables))

    assert set(main.resources()) == declared
    assert output("AZURE_RESOURCE_GROUP", variables) == name


def test_modules_wait_for_the_group() -> None:
    """No name says so: each is in the group by its name, or after a module that waits."""
    blocks = bicep.blocks("module", "main.bicep")
    waiting = {name for name, block in blocks.items() if "dependsOn: [group]" in block.body}
    for _ in blocks:  # until those that wait for others are in it, too
        uses = re.compile(rf"\b({'|'.join(waiting)})!?\.outputs\b")
        waiting |= {name for name, block in blocks.items() if uses.search(block.body)}
    assert waiting == blocks.keys()


def test_existing_model_is_read_in_its_own_subscription_and_group() -> None:
    main = BicepFile("main.bicep", parameters({"AZURE_EXISTING_OPENAI_ID": OPENAI_ID}))
    (scope,) = re.findall(r"(?m)^  scope: resourceGroup\((.+, .+)\)$", bicep.text("main.bicep"))

    assert main.evaluate(f"[{scope}]") == ["1b2c", "g"]
    assert main["openAiEndpoint"] == (
        "https://existingOpenAi.properties.customSubDomainName.openai.azure.com/"
    )


def test_role_ids_are_those_of_azure() -> None:
    text = bicep.text("modules/roles.bicep")

    assert dict(re.findall(r"(?m)^  (\w+): '([0-9a-f-]{36})'", text)) == ROLE_IDS


@pytest.mark.parametrize("name", LIMITS)
def test_number_is_limited_as_in_azure(name: str) -> None:
    limit = limits(bicep.params("main.bicep")[name])

    assert (limit["minValue"], limit["maxValue"]) == LIMITS[name]


@pytest.mark.parametrize(
    "resource",
    ["documentStorage.account", "openAi.account", "search.service", "cosmos.account"],
)
def test_private_network_closes_services_but_for_listed_addresses(resource: str) -> None:
    open_, some, closed = (
        properties(resource, {**SIGN_IN, **more}) for more in ({}, WITH_ADDRESS, PRIVATE)
    )

    assert open_["publicNetworkAccess"] == some["publicNetworkAccess"] == "Enabled"
    assert closed["publicNetworkAccess"] == "Disabled"
    if "networkAcls" in open_:  # the rules of search and Cosmos DB alone close them
        actions = [one["networkAcls"]["defaultAction"] for one in (open_, some, closed)]
        assert actions == ["Allow", "Deny", "Deny"]


def test_storage_of_the_host_is_closed_to_listed_addresses_too() -> None:
    account = properties("hostStorage.account", WITH_ADDRESS)

    assert account["publicNetworkAccess"] == "Disabled"
    assert account["networkAcls"]["ipRules"] == []


def test_storage_takes_only_identities_over_tls() -> None:
    account = properties("documentStorage.account")

    assert account["allowSharedKeyAccess"] is False
    assert account["allowBlobPublicAccess"] is False
    assert account["allowCrossTenantReplication"] is False
    assert account["supportsHttpsTrafficOnly"] is True
    assert account["minimumTlsVersion"] == "TLS1_2"
    assert account["networkAcls"]["bypass"] == "AzureServices"  # the search service's indexer
    assert properties("documentStorage.folder") == {"publicAccess": "None"}


def test_indexer_of_search_can_notice_deleted_documents() -> None:
    assert properties("documentStorage.blobs") == {
        "deleteRetentionPolicy": {"enabled": True, "days": 7},
        "isVersioningEnabled": False,
    }


def test_models_take_tokens_and_change_only_where_answers_may() -> None:
    account = properties("openAi.account")

    assert account["customSubDomainName"].startswith("oai-")
    assert account["disableLocalAuth"] is True
    assert properties("openAi.chat")["versionUpgradeOption"] == "OnceCurrentVersionExpired"
    assert properties("openAi.embedding")["versionUpgradeOption"] == "NoAutoUpgrade"


def region_table() -> dict[str, list[str]]:
    """The cells of the second table of docs/regions.md, by region."""
    page = (bicep.INFRA.parent / "docs" / "regions.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| `(\w+)` \| (.+) \|$", page)
    return {region: cells.split(" | ") for region, cells in rows}


def test_regions_are_those_of_the_documented_table() -> None:
    table, main = region_table(), bicep.text("main.bicep")
    location = bicep.params("main.bicep")["location"].decorators
    settings = (bicep.INFRA.parent / "docs" / "deployment-settings.md").read_text("utf-8")
    (row,) = re.findall(r"(?m)^\| `AZURE_SEARCH_SEMANTIC_RANKER` .*$", settings)
    (no_ranker,) = re.findall(r"(?s)var regionsWithoutRanker = \[(.*?)\]", main)
    without = {region for region, (ranker, *_) in table.items() if ranker == "no"}

    assert list(table) == re.findall(r"(?m)^  '([a-z0-9]+)'$", location)
    assert {cell for cells in table.values() for cell in cells} == {"yes", "no"}
    assert without == set(table) & set(re.findall(r"'(\w+)'", no_ranker))
    assert without == {region for region in table if f"`{region}`" in row}


@pytest.mark.parametrize("plan", ["disabled", "free", "standard"])
def test_search_has_the_semantic_ranker_of_the_choice(plan: str) -> None:
    service = properties("search.service", {"AZURE_SEARCH_SEMANTIC_RANKER": plan})

    assert service["semanticSearch"] == plan


@pytest.mark.parametrize(
    "variables",
    [
        {"AZURE_SEARCH_SKU": "free"},
        {"AZURE_LOCATION": "norwayeast"},
        {"AZURE_LOCATION": "southindia"},
        {"AZURE_SEARCH_LOCATION": "spaincentral"},
        {"AZURE_SEARCH_LOCATION": "Spain Central"},
    ],
)
def test_search_has_no_ranker_where_there_is_none(variables: dict[str, str]) -> None:
    variables = {"AZURE_SEARCH_SEMANTIC_RANKER": "standard"} | variables
    values = deployment(variables)

    assert values["search"].properties("service")["properties"]["semanticSearch"] == "disabled"


@pytest.mark.parametrize(
    ("sku", "identity"), [("free", None), ("basic", {"type": "SystemAssigned"})]
)
def test_search_has_an_identity_where_its_tier_allows(sku: str, identity: object) -> None:
    search = deployment({"AZURE_SEARCH_SKU": sku})["search"].properties("service")

    assert search["sku"] == {"name": sku}
    assert search["identity"] == identity


def test_telemetry_is_written_by_identity_and_limited() -> None:
    variables = {"AZURE_LOG_RETENTION_DAYS": "60", "AZURE_LOG_DAILY_GB": "5"}
    workspace = properties("monitoring.workspace", variables)
    insights = properties("monitoring.insights")

    assert workspace["retentionInDays"] == 60
    assert workspace["workspaceCapping"] == {"dailyQuotaGb": 5}
    assert workspace["features"] == {"disableLocalAuth": True}
    assert insights["DisableLocalAuth"] is True
    assert insights["WorkspaceResourceId"] == "monitoring.workspace.id"
    existing = properties("monitoring.insights", {"AZURE_EXISTING_LOG_ANALYTICS_ID": LOGS_ID})
    assert existing["WorkspaceResourceId"] == LOGS_ID


def test_app_takes_https_and_no_passwords() -> None:
    site = properties("app.site")
    passwords = re.findall(
        r"name: '(ftp|scm)'\n +properties: { allow: (\w+) }", bicep.text("modules/app.bicep")
    )

    assert site["httpsOnly"] is True
    assert site["siteConfig"]["minTlsVersion"] == "1.2"
    assert passwords == [("ftp", "false"), ("scm", "false")]


def test_app_gets_packages_and_secrets_as_its_identity() -> None:
    site = properties("app.site")
    storage = site["functionAppConfig"]["deployment"]["storage"]

    assert site["keyVaultReferenceIdentity"] == APP_ID
    assert storage["authentication"] == {
        "type": "UserAssignedIdentity",
        "userAssignedIdentityResourceId": APP_ID,
    }
    assert storage["value"] == "hostStorage.account.properties.primaryEndpoints.blobpackages"


def test_azd_finds_the_app_by_its_tag() -> None:
    site = deployment({})["app"].properties("site")

    assert site["tags"] == {"azd-env-name": "chat-dev", "azd-service-name": "api"}


def test_app_calls_from_its_subnet() -> None:
    subnet = properties("app.site", PRIVATE)["virtualNetworkSubnetId"]

    assert subnet == "network.network::appSubnet.id"
    assert properties("app.site")["virtualNetworkSubnetId"] is None


def test_app_scales_as_chosen() -> None:
    variables = {
        "AZURE_MAXIMUM_INSTANCES": "7",
        "AZURE_INSTANCE_MEMORY_MB": "512",
        "AZURE_INSTANCE_CONCURRENCY": "9",
        "AZURE_ALWAYS_READY": "3",
    }
    config = properties("app.site", variables)["functionAppConfig"]

    assert config["scaleAndConcurrency"] == {
        "instanceMemoryMB": 512,
        "maximumInstanceCount": 7,
        "alwaysReady": [{"name": "http", "instanceCount": 3}],
        "triggers": {"http": {"perInstanceConcurrency": 9}},
    }


def test_app_settings_have_the_client_key_and_the_origins() -> None:
    variables = {
        "AZURE_CHAT_API_KEY": "k" * 20,
        "AZURE_ALLOWED_ORIGINS": "https://chat.example.com, https://www.example.com",
        "AZURE_APP_SETTINGS": '{"CALLERS": "anyone", "DEFAULT_TOP": "8"}',
    }
    config = properties("app.site", variables)["siteConfig"]
    settings = {one["name"]: one["value"] for one in config["appSettings"]}

    assert settings["CHAT_API_KEY"] == "k" * 20
    assert (settings["CALLERS"], settings["DEFAULT_TOP"]) == ("keys", "8")
    assert config["cors"]["allowedOrigins"] == settings["ALLOWED_ORIGINS"].split(",")
    assert config["cors"] == {
        "allowedOrigins": ["https://chat.example.com", "https://www.example.com"]
    }


def test_sign_in_admits_tokens_of_the_tenant_for_the_app() -> None:
    variables = {
        **SIGN_IN,
        "AZURE_AUTH_ALLOWED_CLIENTS": f"web,{VISUAL_STUDIO_CODE}",
        "AZURE_AUTH_UNAUTHENTICATED": "RedirectToLoginPage",
    }
    auth = properties("app.auth", variables)
    directory = auth["identityProviders"]["azureActiveDirectory"]

    assert auth["platform"] == {"enabled": True}
    assert auth["globalValidation"] == {
        "requireAuthentication": True,
        "unauthenticatedClientAction": "RedirectToLoginPage",
        "redirectToProvider": "azureactivedirectory",
        "excludedPaths": ["/health"],
    }
    assert directory["registration"]["openIdIssuer"].endswith("tenant.tenantId/v2.0")
    validation = directory["validation"]
    clients = validation.pop("defaultAuthorizationPolicy")["allowedApplications"]
    assert validation == {"allowedAudiences": ["client", "api://client"]}
    assert sorted(clients) == sorted(["client", VISUAL_STUDIO_CODE, "web"])  # each once
    assert auth["login"] == {"tokenStore": {"enabled": False}}


@pytest.mark.part("mcp")
def test_sign_in_tells_mcp_clients_the_scope_of_the_registration() -> None:
    sites = [properties("app.site", variables)["siteConfig"] for variables in (SIGN_IN, {})]
    with_sign_in, without = (
        {one["name"]: one["value"] for one in config["appSettings"]} for config in sites
    )
    name = "WEBSITE_AUTH_PRM_DEFAULT_WITH_SCOPES"

    assert with_sign_in[name] == f"api://client/{SCOPE['value']}"
    assert name not in without


def test_sign_in_ends_without_its_client_id() -> None:
    assert properties("app.auth") == {
        "platform": {"enabled": False},
        "globalValidation": {
            "requireAuthentication": False,
            "unauthenticatedClientAction": "AllowAnonymous",
        },
    }


def test_network_lets_the_app_out_and_only_peers_in() -> None:
    endpoints, app = properties("network.network", PRIVATE)["subnets"]
    https, other = properties("network.endpointRules", PRIVATE)["securityRules"]

    assert endpoints["properties"]["defaultOutboundAccess"] is False
    assert app["properties"]["defaultOutboundAccess"] is True
    assert app["properties"]["delegations"][0]["properties"] == {
        "serviceName": "Microsoft.App/environments"
    }
    assert https["properties"]["sourceAddressPrefix"] == "VirtualNetwork"
    assert https["properties"]["destinationPortRange"] == "443"
    assert other["properties"]["destinationPortRange"] == "*"


def test_endpoints_stand_in_their_subnet_and_names_resolve_to_them() -> None:
    endpoint = properties("network.privateEndpoints", PRIVATE)
    links = bicep.text("modules/network.bicep").partition("resource links ")[2]

    assert endpoint["subnet"] == {"id": "network.network::endpointSubnet.id"}
    assert "registrationEnabled: false\n      virtualNetwork: { id: network.id }" in links


def test_network_waits_for_roles_because_cosmos_takes_one_change_at_a_time() -> None:
    network = bicep.blocks("module", "main.bicep")["network"]

    assert network.value("dependsOn") == "[roles]"


@pytest.mark.parametrize(
    ("addresses", "access", "restrictions"),
    [
        ("", "Disabled", []),
        ("1.2.3.4, 5.6.7.0/24", "Enabled", ["1.2.3.4/32", "5.6.7.0/24"]),
    ],
)
def test_private_app_is_closed_but_for_listed_addresses(
    addresses: str, access: str, restrictions: list[str]
) -> None:
    variables = {**PRIVATE, "AZURE_PRIVATE_APP": "true", "AZURE_ALLOWED_IPS": addresses}
    site = properties("app.site", variables)
    config = site["siteConfig"]
    rules = config["ipSecurityRestrictions"]

    assert site["publicNetworkAccess"] == access
    assert config["ipSecurityRestrictionsDefaultAction"] == "Deny"
    assert config["scmIpSecurityRestrictionsUseMain"] is True
    assert [rule["ipAddress"] for rule in rules] == restrictions
    assert {rule["action"] for rule in rules} <= {"Allow"}


def test_app_is_open_to_the_internet_by_default() -> None:
    site = properties("app.site", {**PRIVATE, "AZURE_ALLOWED_IPS": "1.2.3.4"})

    assert site["publicNetworkAccess"] == "Enabled"
    assert site["siteConfig"]["ipSecurityRestrictionsDefaultAction"] == "Allow"
    assert site["siteConfig"]["ipSecurityRestrictions"] == []


def test_private_app_is_registered_under_its_usual_name() -> None:
    variables = {**PRIVATE, "AZURE_PRIVATE_APP": "true"}
    (connection,) = properties("privateAppEndpoint.endpoint", variables)[
        "privateLinkServiceConnections"
    ]
    zone = deployment(variables)["privateAppEndpoint"].properties("zone")

    assert zone["name"] == "privatelink.azurewebsites.net"
    assert connection["properties"] == {
        "privateLinkServiceId": "app.site.id",
        "groupIds": ["sites"],
    }


def test_zones_and_backups_are_as_chosen() -> None:
    zones = {"AZURE_ZONE_REDUNDANT": "true", "AZURE_STORAGE_SKU": "Standard_GZRS"}
    backup = properties("cosmos.account", SIGN_IN)["backupPolicy"]
    chosen = {**SIGN_IN, "AZURE_COSMOS_BACKUP": "Continuous30Days"}

    assert properties("app.plan")["zoneRedundant"] is False
    assert properties("app.plan", zones)["zoneRedundant"] is True
    assert backup["type"] == "Periodic"
    assert backup["periodicModeProperties"]["backupStorageRedundancy"] == "Local"
    assert properties("cosmos.account", chosen)["backupPolicy"] == {
        "type": "Continuous",
        "continuousModeProperties": {"tier": "Continuous30Days"},
    }


def test_alerts_reach_the_address_when_there_is_too_much() -> None:
    variables = {"AZURE_ALERT_EMAIL": "we@example.com"}
    mail = properties("alerts.mail", variables)
    rule = properties("alerts.alerts", variables)
    (criterion,) = rule["criteria"]["allOf"]

    assert mail["enabled"] is True
    assert [one["emailAddress"] for one in mail["emailReceivers"]] == ["we@example.com"]
    assert rule["enabled"] is True
    assert rule["skipQueryValidation"] is True  # there is no request at the first deployment
    assert rule["scopes"] == ["monitoring.insights.id"]
    assert (rule["evaluationFrequency"], rule["windowSize"]) == ("PT15M", "PT15M")
    assert (criterion["timeAggregation"], criterion["operator"]) == ("Count", "GreaterThan")
    assert rule["actions"] == {"actionGroups": ["alerts.mail.id"]}
