"""Rules of infra/ beyond the Bicep compiler: roles, settings, parameters."""

from __future__ import annotations

import json
import re
from itertools import chain
from pathlib import Path

import pytest

from shared.memory.cosmos.copies import CONTAINER
from shared.settings import MIN_KEY_LENGTH, Settings, read_settings
from tests.support import bicep
from tests.support.bicep import PLATFORM, app_settings

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = "documentStorage::blobs::documents"
CONVERSATIONS = "'${cosmos.id}/dbs/${cosmosDatabase}/colls/${cosmosContainer}'"
COPIES = "'${cosmos.id}/dbs/${cosmosDatabase}/colls/${cosmosCopies}'"
ROLES = {  # principal, resource, role
    ("app", "hostStorage", "storageBlobDataOwner"),
    ("app", DOCUMENTS, "storageBlobDataReader"),
    ("app", "search", "searchIndexDataReader"),
    ("app", "openAi", "cognitiveServicesOpenAIUser"),
    ("app", "insights", "monitoringMetricsPublisher"),
    ("app", CONVERSATIONS, "cosmosDbBuiltInDataContributor"),
    ("app", COPIES, "cosmosDbBuiltInDataContributor"),
    ("indexer.id", DOCUMENTS, "storageBlobDataContributor"),
    ("indexer.id", "search", "searchIndexDataContributor"),
    ("indexer.id", "search", "searchServiceContributor"),
    ("indexer.id", "openAi", "cognitiveServicesOpenAIUser"),
    ("search", "documentStorage", "storageBlobDataReader"),
    ("search", "openAi", "cognitiveServicesOpenAIUser"),
}
CONDITIONS = {  # principal, resource; a search service or model that exists gets none here
    ("appPrincipalId", "search"): "!empty(searchName)",
    ("appPrincipalId", "openAi"): "!empty(openAiName)",
    ("searchPrincipalId", "documentStorage"): "!empty(searchPrincipalId)",
    ("searchPrincipalId", "openAi"): "!empty(searchPrincipalId) && !empty(openAiName)",
}
LOOPS = {DOCUMENTS: "indexers", "search": "searchIndexers", "openAi": "modelIndexers"}
WHO_AND_WHERE = {  # the names in roles.bicep
    "appPrincipalId": "identity.outputs.principalId",
    "searchPrincipalId": "createSearch ? search!.outputs.principalId : ''",
    "indexers": "indexers",
    "hostStorageName": "hostStorage.outputs.name",
    "documentStorageName": "documentStorage.outputs.name",
    "documentContainer": "documents",
    "searchName": "createSearch ? search!.outputs.name : ''",
    "openAiName": "createOpenAi ? openAi!.outputs.name : ''",
    "cosmosName": "memory ? cosmos!.outputs.name : ''",
    "cosmosDatabase": "database",
    "cosmosContainer": "conversations",
    "cosmosCopies": "copies ? answerCopies : ''",
    "insightsName": "monitoring.outputs.insightsName",
}
OUTPUTS = {
    "AZURE_LOCATION",
    "AZURE_TENANT_ID",
    "AZURE_RESOURCE_GROUP",
    "SERVICE_API_NAME",
    "SERVICE_API_URI",
    "SERVICE_API_CALLERS",
    "SERVICE_API_IDENTITY_PRINCIPAL_ID",
    "AZURE_STORAGE_ID",
    "AZURE_RESOURCE_MANAGER_URL",
    "AZURE_INDEXER_ID",
    "AZURE_INDEXER_TYPE",
    "AZURE_INDEXERS_GROUP_ID_IN_USE",
    "AZURE_SEARCH_PRINCIPAL_ID",
    "AZURE_EXISTING_SEARCH_ID_IN_USE",
    "AZURE_EXISTING_OPENAI_ID_IN_USE",
    "AZURE_UPLOADS_IN_USE",
    "AZURE_UPLOADS_INDEX_IN_USE",
    "SERVICE_UPLOADS_NAME",
    "SERVICE_UPLOADS_IDENTITY_PRINCIPAL_ID",
    "AZURE_VNET_IN_USE",
    "AZURE_PRIVATE_APP_IN_USE",
    "AZURE_ALLOWED_IPS_IN_USE",
}
LAPTOP = {  # the outputs that are settings, too: a laptop needs them to use the services in Azure
    "AZURE_SEARCH_ENDPOINT",
    "AZURE_SEARCH_INDEX",
    "AZURE_SEARCH_SEMANTIC_CONFIGURATION",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_CHAT_DEPLOYMENT",
    "AZURE_OPENAI_EMBEDDING_DEPLOYMENT",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_STORAGE_CONTAINER",
}
MEMORY = {  # set only with sign-in, and not on a laptop, which uses MEMORY_FILE
    "AZURE_COSMOS_ENDPOINT": "cosmos!.outputs.endpoint",
    "AZURE_COSMOS_DATABASE": "cosmos!.outputs.database",
    "AZURE_COSMOS_CONTAINER": "cosmos!.outputs.container",
    "MEMORY_DAYS": "string(memoryDays)",
}
COPIES_NEED_MEMORY = (
    "AZURE_FEEDBACK_COPIES needs stored conversations: sign-in, and AZURE_USE_MEMORY=true."
)
ROLE_FILES = ["modules/roles.bicep", "modules/uploads_roles.bicep"]
UNTAGGED = {"roles", "uploadRoles", "diagnosticSettings"}  # modules without a resource of their own
OF_APPS_ALONE = {"hostStorage", "uploadStorage"}  # what nobody else reaches in a network
ALLOWING = {"documentStorage", "search", "openAi", "cosmos"}  # what lets listed addresses in
CLOSABLE = {  # the modules of services that useVnet closes, and the resource of each
    "storage": "account",
    "search": "service",
    "openai": "account",
    "cosmos": "account",
}


def roles(provider: str = "") -> dict[str, bicep.Block]:
    blocks = bicep.blocks("resource", "modules/roles.bicep")
    return {symbol: role for symbol, role in blocks.items() if role.source.startswith(provider)}


def test_identities_have_exactly_the_roles_of_the_table() -> None:
    assignments = [
        (
            role.value("principalId").removesuffix("PrincipalId"),
            role.value("scope"),
            re.findall(r"roleIds\.(\w+)", role.value("roleDefinitionId"))[0],
        )
        for role in roles().values()
    ]

    assert sorted(assignments) == sorted(ROLES)


def test_role_names_match_their_ids() -> None:
    main = bicep.blocks("module", "main.bicep")

    assert main["roles"].object("params") == WHO_AND_WHERE
    assert bicep.existing("modules/roles.bicep") == {
        "hostStorage": "hostStorageName",
        "documentStorage": "documentStorageName",
        "search": "searchService",
        "openAi": "openAiAccount",
        "cosmos": "cosmosAccount",
        "insights": "insightsName",
    }
    assert main["hostStorage"].value("container") == "packages"
    assert main["documentStorage"].value("container") == "documents"
    assert main["app"].value("identityId") == "identity.outputs.id"


def test_role_assignment_names_are_unique_and_have_a_principal_type() -> None:
    for role in roles("Microsoft.Authorization/").values():
        who, where = role.value("principalId"), role.value("scope")
        what = role.value("roleDefinitionId").removesuffix(")").split(", ")[1]
        kind = "indexer.type" if who == "indexer.id" else "'ServicePrincipal'"

        assert role.value("name") == f"guid({where}.id, {who}, {what})"
        assert role.value("principalType") == kind
        assert role.condition == CONDITIONS.get((who, where), "")
        assert role.loop == (f"indexer in {LOOPS[where]}" if who == "indexer.id" else "")


def test_indexers_are_who_provisions_and_the_group() -> None:
    assert re.findall(r"(?ms)^var indexers = concat\(\n(.*?)^\)$", bicep.text("main.bicep")) == [
        "  empty(principalId) ? [] : [{ id: principalId, type: principalType }],\n"
        "  empty(indexersGroup) ? [] : [{ id: indexersGroup, type: 'Group' }]\n"
    ]


def test_roles_are_assigned_in_one_file_and_no_keys_are_used() -> None:
    names = [file.relative_to(bicep.INFRA).as_posix() for file in bicep.FILES]
    texts = {name: bicep.text(name) for name in names}
    giving = [name for name, text in texts.items() if re.search("(?i)roleAssignments@", text)]

    assert giving == ROLE_FILES
    assert [name for name, text in texts.items() if re.search(r"\blist[A-Z]\w*\(", text)] == []
    secure = {
        name: re.findall(r"@secure\(\)\n.*\nparam (\w+)", text) for name, text in texts.items()
    }
    # the only key, for clients without sign-in
    assert {name: parameters for name, parameters in secure.items() if parameters} == {
        "modules/app.bicep": ["chatApiKey"],
        "main.bicep": ["chatApiKey"],
    }


def test_settings_of_the_template_override_those_of_a_person() -> None:
    body = bicep.blocks("module", "main.bicep")["app"].body

    assert len(re.findall(r"settings: union\(appSettings, (?:\w+, )*\{\n", body)) == 1
    assert bicep.params("main.bicep")["appSettings"].default == "{}"
    assert "items(union(settings, signInSettings, keySettings))" in bicep.text("modules/app.bicep")


def test_every_deployed_setting_is_read() -> None:
    known = {field.alias for field in Settings.model_fields.values()}

    assert app_settings().keys() - known == PLATFORM


def test_azure_docs_name_what_sets_a_setting() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| (set by|for a)([^|]*)\| (`[A-Z].*) \|$", page)
    documented = {kind + more.rstrip(): re.findall(r"`(\w+)`", names) for kind, more, names in rows}
    known = [str(field.alias) for field in Settings.model_fields.values()]

    assert len(documented) == 3
    assert set(chain(*documented.values())) < set(known)
    assert sum(map(len, documented.values())) == len(set(chain(*documented.values())))
    assert set(documented["set by `azd up`"]) == app_settings().keys() - PLATFORM


def test_app_accepts_the_settings_of_bicep() -> None:
    literal = {"CALLERS": "keys", "AZURE_SEARCH_SEMANTIC_CONFIGURATION": "", "MEMORY_DAYS": "90"}
    literal["FEEDBACK_COPIES"] = "on"
    literal["ALLOWED_ORIGINS"] = "https://chat.example.com,https://www.example.com"
    values = dict.fromkeys(app_settings(), "documents")
    endpoints = {name: "https://x.example.com/" for name in values if name.endswith("_ENDPOINT")}
    settings = read_settings(values | endpoints | literal)

    assert settings.callers == "keys"
    assert settings.azure_search_semantic_configuration is None
    assert settings.azure_storage_container == "documents"


def test_outputs_equal_the_settings_of_the_same_name() -> None:
    outputs, settings = bicep.outputs("main.bicep"), app_settings()

    optional = {name for name, value in outputs.items() if re.match(r"has\w+ \? ", value)}

    block = re.search(r"(?ms)^var \w+Settings = has\w+ \? \{\n(.*?)^\}", bicep.text("main.bicep"))

    assert outputs.keys() - optional == OUTPUTS | LAPTOP
    assert optional == set(re.findall(r"(?m)^  (\w+): ", block[1]) if block else ())
    assert {name: outputs[name] for name in LAPTOP} == {name: settings[name] for name in LAPTOP}


@pytest.mark.parametrize("file", bicep.FILES, ids=lambda file: str(file.name))
def test_every_parameter_is_described(file: Path) -> None:
    name = str(file.relative_to(bicep.INFRA))
    params = bicep.params(name)

    assert len(params) == len(re.findall(r"(?m)^param ", bicep.text(name)))
    assert [param for param, its in params.items() if not its.description] == []


def test_azd_defaults_equal_bicep_defaults() -> None:
    params, filled = bicep.params("main.bicep"), list(bicep.parameters_file())

    assert [name for name, _, _ in filled] == list(params)
    for name, _, default in filled:
        # azd leaves an object out where its variable is unset.
        assert (default or "") == (params[name].default or "").replace("{}", ""), name


def test_docs_list_every_azd_variable_with_its_default() -> None:
    defaults, others = settings_rows()
    values = {name: re.sub("azd asks|azd knows|none", "", cell) for name, cell in defaults.items()}

    assert values == {name: default or "" for _, name, default in bicep.parameters_file()}
    assert all(others.values())


def test_docs_list_the_variables_that_only_hooks_read() -> None:
    _, others = settings_rows()
    text = "".join(path.read_text("utf-8") for path in (ROOT / "scripts").rglob("*.py"))

    assert len(others) > 0
    assert [name for name in others if f'"{name}"' not in text] == []


def settings_rows() -> tuple[dict[str, str], dict[str, str]]:
    """The default of each variable in the docs: of the parameters, and of those of the hooks."""
    page = (ROOT / "docs" / "deployment-settings.md").read_text("utf-8")
    rows = r"(?m)^\| `(AZURE_\w+)` \| (?:[^|]+) \| `?([^|]*?)`? \| (?:[^|]+) \|$"
    parameters, heading, hooks = page.partition("## Only for the hooks")
    found = dict(re.findall(rows, parameters)), dict(re.findall(rows, hooks))

    assert heading
    assert sum(map(len, found)) == len(re.findall(r"(?m)^\| `AZURE_", page))
    return found


def test_regions_have_quota_for_the_deployments() -> None:
    params = bicep.params("main.bicep")
    quotas = re.findall(r"'OpenAI\.([^']+)'", params["openAiLocation"].decorators)

    assert quotas == [
        "{}.{},{}".format(
            *(params[f"{kind}{part}"].default for part in ("Sku", "Model", "Capacity"))
        )
        for kind in ("chat", "embedding")
    ]
    assert params["openAiLocation"].default is None


@pytest.mark.parametrize("model", ["chat", "embedding"])
def test_model_deployment_follows_its_parameters(model: str) -> None:
    deployment = bicep.blocks("resource", "modules/openai.bicep")[model]
    passed = bicep.blocks("module", "main.bicep")["openAi"].object("params")

    assert deployment.value("name") == f"{model}Model"
    assert deployment.value("sku") == f"{{ name: {model}Sku, capacity: {model}Capacity }}"
    assert deployment.value("model") == (
        f"{{ format: 'OpenAI', name: {model}Model, version: {model}ModelVersion }}"
    )
    for name in ("Model", "ModelVersion", "Sku", "Capacity"):
        assert passed[model + name] == model + name


@pytest.mark.parametrize("file", bicep.FILES, ids=lambda file: str(file.name))
def test_conditional_resources_are_referenced_safely(file: Path) -> None:
    name = str(file.relative_to(bicep.INFRA))
    blocks = bicep.blocks("module", name) | bicep.blocks("resource", name)
    perhaps = {symbol: block.condition for symbol, block in blocks.items() if block.condition}

    for symbol, condition in perhaps.items():
        uses = re.findall(rf"(.*)(?<![/.])\b{symbol}(!?\.\??)(?!id\b|name\b)\w", bicep.text(name))
        there = rf"(^|\s){re.escape(condition)} \? (?!.* : )"
        careful = [
            mark == ".?" or (mark == "!." and re.search(there, before)) for before, mark in uses
        ]
        assert all(careful), uses


def test_everything_is_deployed_into_one_group() -> None:
    """And no existing resource is changed: the hook gives roles on these."""
    main = bicep.blocks("module", "main.bicep")
    text = bicep.text("main.bicep")
    one_group = "resourceGroup(groupName)"
    scopes = re.findall(rf"(?m)^(\w+ \w+ .+)\n  scope: (?!{re.escape(one_group)}$)(.+)$", text)

    assert {block.value("scope") for block in main.values()} == {one_group}
    assert bicep.blocks("resource", "main.bicep").keys() == {"group"}
    assert [head.split(" = ")[0] for head, _ in scopes] == [
        "resource existingOpenAi 'Microsoft.CognitiveServices/accounts@2025-06-01' existing"
    ]
    for file in bicep.FILES:
        if file.name != "main.bicep":
            text = bicep.text(str(file.relative_to(bicep.INFRA)))
            assert "resourceGroup(" not in text, file.name
            assert "\nmodule " not in text, file.name


def test_existing_services_replace_those_of_the_template() -> None:
    main, variables = bicep.blocks("module", "main.bicep"), bicep.variables("main.bicep")
    workspace = bicep.blocks("resource", "modules/monitoring.bicep")["workspace"]
    settings = app_settings()

    assert variables["createSearch"] == "empty(existingSearchId)"
    assert variables["createOpenAi"] == "empty(existingOpenAiId)"
    assert main["search"].condition == "createSearch"
    assert main["openAi"].condition == "createOpenAi"
    assert workspace.condition == "empty(existingWorkspaceId)"
    assert main["monitoring"].value("existingWorkspaceId") == "existingLogAnalyticsId"
    assert settings["AZURE_SEARCH_ENDPOINT"] == "searchEndpoint"
    assert settings["AZURE_OPENAI_ENDPOINT"] == "openAiEndpoint"
    assert settings["AZURE_OPENAI_CHAT_DEPLOYMENT"] == "chatDeployment"
    assert settings["AZURE_OPENAI_EMBEDDING_DEPLOYMENT"] == "embeddingDeployment"
    assert settings["AZURE_SEARCH_SEMANTIC_CONFIGURATION"] == "semanticConfiguration"
    refused = "empty(existingOpenAi!.properties.customSubDomainName) ? fail(noSubdomain) : "
    for name, value in (
        ("openAiEndpoint", f"openAi!.outputs.endpoint : {refused}"),
        ("searchEndpoint", "'https://${last(split(existingSearchId, '/'))}.search.windows.net'"),
        ("semanticConfiguration", "existingSearchSemanticConfiguration"),
        ("openAiEndpoint", "'https://${existingOpenAi!.properties.customSubDomainName}.openai"),
        ("chatDeployment", "chatModel"),
        ("embeddingDeployment", "embeddingModel"),
    ):
        (line,) = re.findall(rf"(?m)^var {name} = (.+)$", bicep.text("main.bicep"))
        assert value in line


def test_every_closed_service_has_a_private_endpoint() -> None:
    main = bicep.blocks("module", "main.bicep")
    closed = {name for name, block in main.items() if "closed: useVnet" in block.body}
    reached = set(re.findall(r"resourceId: (\w+)!?\.outputs\.id", bicep.text("main.bicep")))

    assert main["network"].condition == "useVnet"
    assert closed == reached == OF_APPS_ALONE | ALLOWING
    assert main["hostStorage"].value("allowedIps") == "[]"
    assert {main[name].value("allowedIps") for name in ALLOWING} == {"ips"}


@pytest.mark.parametrize(("module", "symbol"), CLOSABLE.items())
def test_closed_services_allow_listed_addresses_and_no_keys(module: str, symbol: str) -> None:
    resource = bicep.blocks("resource", f"modules/{module}.bicep")[symbol]
    shared = "allowSharedKeyAccess: false" in resource.body

    assert resource.value("publicNetworkAccess") == (
        "closed && empty(allowedIps) ? 'Disabled' : 'Enabled'"
    )
    assert resource.value("ipRules").startswith("[for ip in allowedIps: { ")
    assert shared or resource.value("disableLocalAuth") == "true"


def test_bicep_and_project_name_the_same_python() -> None:
    version = (ROOT / ".python-version").read_text("utf-8").strip()
    app = bicep.blocks("resource", "modules/app.bicep")["site"]

    assert app.value("runtime") == f"{{ name: 'python', version: '{version}' }}"
    assert app.value("triggers") == ("{ http: { perInstanceConcurrency: perInstanceConcurrency } }")
    assert int(bicep.params("main.bicep")["perInstanceConcurrency"].default or 0) >= 16


def test_app_holds_more_answers_than_the_platform_sends_to_an_instance() -> None:
    concurrency = int(bicep.params("main.bicep")["perInstanceConcurrency"].default or 0)

    assert 0 < concurrency < Settings().max_concurrent_answers


def test_keys_are_optional_only_with_sign_in_or_explicit_choice() -> None:
    params = bicep.params("main.bicep")

    assert app_settings()["CALLERS"] == "callers"
    assert "\nvar callers = signIn ? 'signed-in' : openToAll ? 'anyone' : 'keys'\n" in bicep.text(
        "main.bicep"
    )
    assert params["openToAll"].default == "false"
    assert params["authClientId"].default == ""
    assert bicep.variables("main.bicep")["signIn"] == "!empty(authClientId)"


def test_cors_has_no_wildcard() -> None:
    cors = bicep.blocks("module", "main.bicep")["app"].value("allowedOrigins")

    assert bicep.params("main.bicep")["allowedOrigins"].default == ""
    assert cors.startswith("contains(origins, '*') ? fail(")
    assert "'*'" not in bicep.text("modules/app.bicep")


def test_invalid_client_key_is_rejected_before_deployment() -> None:
    key = bicep.blocks("module", "main.bicep")["app"].value("chatApiKey")
    refused = f"!empty(chatApiKey) && length(chatApiKey) < {MIN_KEY_LENGTH} ? fail("

    assert bicep.params("main.bicep")["chatApiKey"].default == ""
    assert key.startswith(refused)
    assert key.endswith(" : chatApiKey")


def test_app_uses_its_identity_for_all_services() -> None:
    settings = app_settings()
    app = bicep.blocks("module", "main.bicep")["app"]
    client = "identity.outputs.clientId"

    assert settings["AZURE_CLIENT_ID"] == settings["AzureWebJobsStorage__clientId"] == client
    assert settings["AzureWebJobsStorage__credential"] == "'managedidentity'"
    assert settings["APPLICATIONINSIGHTS_AUTHENTICATION_STRING"] == (
        f"'ClientId=${{{client}}};Authorization=AAD'"
    )
    assert settings["OVERRIDE_USE_MI_FIC_ASSERTION_CLIENTID"] == "identityClientId"
    assert app.value("identityClientId") == client
    assert settings["AzureWebJobsStorage__accountName"] == "hostStorage.outputs.name"
    assert settings["AzureWebJobsStorage__blobServiceUri"] == "hostStorage.outputs.endpoint"
    assert app.value("packagesUrl") == "'${hostStorage.outputs.endpoint}${packages}'"
    assert settings["AZURE_STORAGE_ENDPOINT"] == "documentStorage.outputs.endpoint"


def test_sign_in_has_no_secret_and_accepts_only_listed_apps() -> None:
    auth = bicep.blocks("resource", "modules/app.bicep")["auth"]
    policy = auth.value("defaultAuthorizationPolicy") or ""
    clients = re.sub(r"\{ allowedApplications: (.*) \}", r"\1", policy)

    assert auth.value("clientSecretSettingName") == "'OVERRIDE_USE_MI_FIC_ASSERTION_CLIENTID'"
    assert auth.value("requireAuthentication") == "true"
    assert re.fullmatch(
        r"union\(\[authClientId(, visualStudioCode)?\], authAllowedClients\)", clients
    )
    assert auth.value("excludedPaths") == "['/health']"


def test_what_production_needs_reaches_its_resource() -> None:
    main, variables = bicep.blocks("module", "main.bicep"), bicep.variables("main.bicep")
    scale = bicep.blocks("resource", "modules/app.bicep")["site"]

    assert main["search"].value("replicas") == "searchSku == 'free' ? 1 : searchReplicas"
    assert bicep.blocks("resource", "modules/search.bicep")["service"].value("replicaCount") == (
        "replicas"
    )
    assert {main[name].value("sku") for name in ("hostStorage", "documentStorage")} == {
        "storageSku"
    }
    storage = bicep.blocks("resource", "modules/storage.bicep")["account"]
    assert storage.value("sku") == "{ name: sku }"
    assert main["app"].value("alwaysReady") == "alwaysReady"
    assert scale.value("alwaysReady") == (
        "alwaysReady == 0 ? [] : [{ name: 'http', instanceCount: alwaysReady }]"
    )
    assert main["cosmos"].value("location") == "cosmosRegion"
    assert variables["cosmosRegion"] == "empty(cosmosLocation) ? location : cosmosLocation"
    assert variables["searchRegion"] == "empty(searchLocation) ? location : searchLocation"


def test_diagnostics_and_alerts_are_off_by_default() -> None:
    main, params = bicep.blocks("module", "main.bicep"), bicep.params("main.bicep")
    text = bicep.text("modules/alerts.bicep")
    (answers,) = re.findall(r"(?s)var answerRules = \[\n(.*?)\n\]", text)
    rules = re.findall(r"query: '(.+)'\n +threshold: (\w+)", answers)
    parts = dict(re.findall(r"(?m)^var (failed\w+) = '(.+)'$", text))

    assert main["diagnosticSettings"].condition == "diagnostics"
    assert params["diagnostics"].default == "false"
    assert main["alerts"].condition == "!empty(alertEmail)"
    assert params["alertEmail"].default == ""
    assert rules == [
        ("union (${failedRequests}), (${failedStreams})", "errors"),
        ('requests | where resultCode == "429"', "errors"),
        ("requests", "requests"),
    ]
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    query = "union ({}),\n    ({})".format(parts["failedRequests"], parts["failedStreams"])
    assert f"```kusto\n{query}\n```" in page
    assert {
        one.value("scope") for one in bicep.blocks("resource", "modules/diagnostics.bicep").values()
    } == {
        "documentStorage::blobs",
        "search",
        "openAi",
        "cosmos",
    }


TITLES = ["Answers by the hour", "Answers of the day", "What failed"]


@pytest.mark.part("feedback")
def test_workbook_shows_ratings() -> None:
    workbook = json.loads((bicep.INFRA / "workbook.json").read_text("utf-8"))

    titles = [item["content"]["title"] for item in workbook["items"]]
    assert titles == [*TITLES, "Ratings", "Ratings: what was wrong"]


def test_workbook_has_the_queries_of_the_docs() -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    workbook = json.loads((bicep.INFRA / "workbook.json").read_text("utf-8"))
    contents = [item["content"] for item in workbook["items"]]

    assert workbook["version"] == "Notebook/1.0"
    assert [item["title"] for item in contents][:3] == TITLES
    for content in contents:
        assert f"```kusto\n{content['query']}\n```" in page, content["title"]
        assert content["resourceType"] == "microsoft.insights/components"
        assert ("render timechart" in content["query"]) == (content["visualization"] == "timechart")


def test_tags_are_on_every_resource_and_azd_keeps_its_own() -> None:
    text = bicep.text("main.bicep")

    assert "\nvar tags = union(resourceTags, { 'azd-env-name': environmentName })\n" in text
    for file in bicep.FILES:
        name = str(file.relative_to(bicep.INFRA))
        for symbol, block in bicep.blocks("resource", name).items():
            if re.search(r"(?m)^ +location: ", block.body):
                assert re.search(r"(?m)^ +tags: (union\()?tags", block.body), (name, symbol)
    for symbol, block in bicep.blocks("module", "main.bicep").items():
        if symbol not in UNTAGGED:
            assert block.object("params").get("tags") == "tags", symbol


def test_resource_names_hash_the_region_that_they_are_in() -> None:
    main, variables = bicep.blocks("module", "main.bicep"), bicep.variables("main.bicep")
    (block,) = re.findall(r"(?s)var defaultNames = {\n(.*?)\n}", bicep.text("main.bicep"))
    tokens = dict(re.findall(r"(?m)^  (\w+): '.*\$\{(\w+)\}'$", block))

    for symbol, block in main.items():
        params = block.object("params")
        for key in re.findall(r"\bnames\.(\w+)", " ".join(params.values())):
            assert variables[tokens.pop(key)] == (
                f"toLower(uniqueString(subscription().id, environmentName, {params['location']}))"
            ), symbol
    assert tokens == {}
    assert main["search"].value("location") == "searchRegion"
    assert main["openAi"].value("location") == "openAiLocation"


def test_dependencies_are_created_first() -> None:
    assert bicep.blocks("module", "main.bicep")["app"].value("dependsOn") == "[roles]"
    openai = bicep.blocks("resource", "modules/openai.bicep")
    assert openai["embedding"].value("dependsOn") == "[chat]"
    assert bicep.blocks("resource", "modules/network.bicep").keys() == {
        "endpointRules",
        "appRules",
        "network",
        "zones",
        "privateEndpoints",
    }  # the rest: loops with an index
    assert bicep.text("modules/network.bicep").count("dependsOn: [links]") == 1


def test_private_endpoints_use_the_zone_names_of_azure() -> None:
    network = bicep.text("modules/network.bicep")
    zones = re.findall(r"(?m)^  (\w+): \[('privatelink\..+')\]$", network)
    module = bicep.blocks("module", "main.bicep")["network"].body

    assert dict(zones) == {
        "blob": "'privatelink.blob.${environment().suffixes.storage}'",
        "queue": "'privatelink.queue.${environment().suffixes.storage}'",
        "searchService": "'privatelink.search.windows.net'",
        "account": (
            "'privatelink.openai.azure.com', 'privatelink.cognitiveservices.azure.com', "
            "'privatelink.services.ai.azure.com'"
        ),
        "Sql": "'privatelink.documents.azure.com'",
    }
    assert re.findall(r"name: '(\w+)'.*group: '(\w+)'", module) == [
        ("host", "blob"),
        ("documents", "blob"),
        ("search", "searchService"),
        ("openai", "account"),
        ("memory", "Sql"),
    ]
    assert "{ serviceName: 'Microsoft.App/environments' }" in network


def test_subnets_have_rules_and_addresses_of_the_prefix() -> None:
    network = bicep.text("modules/network.bicep")
    subnets = re.findall(
        r"name: '(\w+)'\n +properties: {\n +addressPrefix: (.+)\n +networkSecurityGroup: (.+)",
        network,
    )

    assert subnets == [
        ("endpoints", "cidrSubnet(prefix, 24, 1)", "{ id: endpointRules.id }"),
        ("app", "cidrSubnet(prefix, 24, 2)", "{ id: appRules.id }"),
    ]
    assert "privateEndpointNetworkPolicies: 'NetworkSecurityGroupEnabled'" in network
    rules = re.findall(
        r"name: '(\w+)'\n.+\n +priority: (\d+)\n +direction: '(\w+)'\n +access: '(\w+)'", network
    )
    assert rules == [
        ("AllowHttps", "100", "Inbound", "Allow"),
        ("DenyOther", "4096", "Inbound", "Deny"),
    ]
    assert bicep.blocks("module", "main.bicep")["network"].value("prefix") == "vnetPrefix"


def test_each_endpoint_is_registered_in_all_zones_of_its_kind() -> None:
    network = bicep.text("modules/network.bicep")
    (kinds,) = re.findall(r"(?m)^  group: (.+)$", network)

    assert bicep.variables("modules/network.bicep") == {
        "groups": "map(endpoints, endpoint => endpoint.group)",
        "zoneNames": "union(flatten(map(groups, group => zonesOfGroup[group])), [])",
    }
    for group in kinds.split(" | "):
        assert f"\n  {group.strip(chr(39))}: ['privatelink." in network
    assert "for zone in zonesOfGroup[one.group]: {" in network
    assert network.count("for zone in zoneNames: {") == 1
    assert network.count("for (zone, i) in zoneNames: {") == 1


def test_models_stand_in_the_kind_of_account_that_azure_upgrades_to() -> None:
    account = bicep.blocks("resource", "modules/openai.bicep")["account"]

    assert account.value("kind") == "'AIServices'"
    assert account.value("identity") == "{ type: 'SystemAssigned' }"
    assert account.value("allowProjectManagement") == "true"
    assert bicep.outputs("modules/openai.bicep")["endpoint"] == (
        "'https://${account.name}.openai.azure.com/'"
    )


def test_memory_is_deployed_only_with_sign_in() -> None:
    main, params = bicep.blocks("module", "main.bicep"), bicep.params("main.bicep")
    settings = app_settings()

    assert bicep.variables("main.bicep")["memory"] == "signIn && useMemory"
    assert params["useMemory"].default == "true"
    assert main["cosmos"].condition == "memory"
    assert {name: settings[name] for name in MEMORY} == {
        name: f"memory ? {value} : ''" for name, value in MEMORY.items()
    }
    endpoint = "{ name: 'memory', resourceId: cosmos!.outputs.id, group: 'Sql' }"
    assert f"\n      memory ? [{endpoint}] : []\n" in main["network"].body


def test_only_the_app_can_access_conversations() -> None:
    role = roles("Microsoft.DocumentDB/")["appKeepsConversations"]
    passed = bicep.blocks("module", "main.bicep")["cosmos"].object("params")
    text = bicep.text("modules/roles.bicep")

    assert role.condition == "!empty(cosmosName)"
    assert role.value("parent") == "cosmos"
    assert role.value("name") == (
        "guid(cosmos.id, cosmosDatabase, cosmosContainer, appPrincipalId, "
        "roleIds.cosmosDbBuiltInDataContributor)"
    )
    assert role.value("roleDefinitionId") == (
        "'${cosmos.id}/sqlRoleDefinitions/${roleIds.cosmosDbBuiltInDataContributor}'"
    )
    assert "cosmosDbBuiltInDataContributor: '00000000-0000-0000-0000-000000000002'" in text
    # ARM rejects an empty name even if the resource's condition is false.
    assert "\nvar cosmosAccount = empty(cosmosName) ? 'none' : cosmosName\n" in text
    assert (passed["database"], passed["container"]) == ("database", "conversations")
    assert (WHO_AND_WHERE["cosmosDatabase"], WHO_AND_WHERE["cosmosContainer"]) == (
        passed["database"],
        passed["container"],
    )


def test_copies_of_answers_are_in_a_container_of_their_own() -> None:
    settings, variables = app_settings(), bicep.variables("main.bicep")
    role = roles("Microsoft.DocumentDB/")["appKeepsCopies"]
    container = bicep.blocks("resource", "modules/cosmos.bicep")["answerCopies"]
    passed = bicep.blocks("module", "main.bicep")["cosmos"].object("params")

    assert bicep.params("main.bicep")["feedbackCopies"].default == "false"
    assert variables["copies"] == "memory && feedbackCopies"
    assert settings["FEEDBACK_COPIES"] == (
        f"feedbackCopies && !memory ? fail('{COPIES_NEED_MEMORY}') : copies ? 'on' : ''"
    )
    assert variables["answerCopies"] == CONTAINER
    assert passed["copies"] == WHO_AND_WHERE["cosmosCopies"]
    assert (role.condition, container.condition) == ("!empty(cosmosCopies)", "!empty(copies)")
    assert container.value("id") == "copies"
    assert container.value("partitionKey") == "{ paths: ['/owner'], kind: 'Hash', version: 2 }"
    assert container.value("defaultTtl") == "-1"
    assert container.array("includedPaths") == tuple(
        f"{{ path: '/{name}/?' }}" for name in ("owner", "conversation")
    )
    # An account takes one change at a time.
    assert role.value("dependsOn") == "[appKeepsConversations]"
    assert container.value("dependsOn") == "[memory]"


def test_conversations_are_partitioned_by_owner_and_indexed_without_text() -> None:
    container = bicep.blocks("resource", "modules/cosmos.bicep")["memory"]

    assert container.value("partitionKey") == "{ paths: ['/owner'], kind: 'Hash', version: 2 }"
    assert container.value("defaultTtl") == "-1"
    assert container.value("indexingMode") == "'consistent'"
    assert container.array("includedPaths") == tuple(
        f"{{ path: '/{name}/?' }}" for name in ("owner", "conversation", "sort", "bytes", "request")
    )
    assert container.value("excludedPaths") == "[{ path: '/*' }]"
    assert container.array("compositeIndexes") == (
        "[",
        "{ path: '/conversation', order: 'ascending' }",
        "{ path: '/sort', order: 'ascending' }",
        "]",
    )


def test_cosmos_account_is_serverless_consistent_and_regional() -> None:
    account = bicep.blocks("resource", "modules/cosmos.bicep")["account"]

    assert account.value("capabilities") == "[{ name: 'EnableServerless' }]"
    assert account.value("minimalTlsVersion") == "'Tls12'"
    assert account.value("consistencyPolicy") == "{ defaultConsistencyLevel: 'Strong' }"
    assert account.value("backupStorageRedundancy") == "'Local'"
    assert account.body.count("locationName: location,") == 1


def test_maximum_retention_fits_into_a_cosmos_ttl() -> None:
    days = bicep.params("main.bicep")["memoryDays"]
    (least,) = re.findall(r"@minValue\((\d+)\)", days.decorators)
    (most,) = re.findall(r"@maxValue\((\d+)\)", days.decorators)

    assert (least, days.default) == ("0", "90")
    assert int(most) * 24 * 60 * 60 < 2**31 <= (int(most) + 1) * 24 * 60 * 60
