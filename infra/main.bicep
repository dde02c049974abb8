metadata description = 'Everything the chat needs in Azure: no key anywhere, and nothing kept warm while nobody asks.'

targetScope = 'subscription'

@minLength(1)
@maxLength(64)
@description('The name of the azd environment: names are made from it, and every resource is tagged with it.')
param environmentName string

// The regions of Flex Consumption, as Azure-Samples/functions-quickstart-python-http-azd listed them on 2025-11-24, without
// the canary region. A newer one that `az functionapp list-flexconsumption-locations` shows can be added.
@allowed([
  'australiaeast'
  'australiasoutheast'
  'brazilsouth'
  'canadacentral'
  'centralindia'
  'centralus'
  'eastasia'
  'eastus'
  'eastus2'
  'francecentral'
  'germanywestcentral'
  'italynorth'
  'japaneast'
  'koreacentral'
  'northcentralus'
  'northeurope'
  'norwayeast'
  'southafricanorth'
  'southcentralus'
  'southeastasia'
  'southindia'
  'spaincentral'
  'swedencentral'
  'uaenorth'
  'uksouth'
  'ukwest'
  'westcentralus'
  'westeurope'
  'westus'
  'westus2'
  'westus3'
])
@metadata({ azd: { type: 'location' } })
@description('Where everything but the models is: a region that has Flex Consumption.')
param location string

@maxLength(90)
@description('A resource group that exists, in which everything is created; it is not changed, and azd down leaves it alone. Empty, or rg- and the environment: a group of that name is created.')
param resourceGroupName string = ''

@description('Who provisions and may index documents, by the object id. azd always sets its signed-in user or pipeline; empty: nobody.')
param principalId string = ''

@allowed(['User', 'ServicePrincipal'])
@description('What principalId is. ServicePrincipal in a pipeline.')
param principalType string = 'User'

@description('The object id of a group in Entra ID whose members may index documents too; empty: none.')
param indexersGroupId string = ''

@metadata({
  azd: {
    type: 'location'
    // The SKUs, the models and the capacities of the defaults below: azd offers only regions that have so much left, unless AZURE_OPENAI_LOCATION is set.
    usageName: [
      'OpenAI.GlobalStandard.gpt-5.6-luna,100'
      'OpenAI.GlobalStandard.text-embedding-3-small,30'
    ]
  }
})
@description('Where Azure OpenAI lies: a region that has the models and quota for them.')
param openAiLocation string

// By price, quota and retirement, looked up on 2026-11-23; look again by 2027-07:
// - https://learn.microsoft.com/azure/foundry/openai/concepts/model-retirement-schedule of 2026-09-02: gpt-5.6-luna
//   2026-07-09 retires on 2028-01-11, text-embedding-3-small 1 on 2028-02-09, the former default gpt-5.4-mini on 2027-09-21.
// - MicrosoftDocs/azure-ai-docs, articles/foundry/openai/includes/quota-tier/tier-1.md of 2026-08-20: both have
//   GlobalStandard and DataZoneStandard, gpt-5.4-mini has GlobalStandard alone.
// The first hook says when Azure lists a retirement within 60 days.
@description('The model that answers. The deployment is named after it: the app tells by the name what a model can do.')
param chatModel string = 'gpt-5.6-luna'

@description('The version of the model that answers.')
param chatModelVersion string = '2026-07-09'

@allowed(['GlobalStandard', 'DataZoneStandard', 'Standard'])
@description('Where prompts may be processed: in any region, in the data zone of openAiLocation, or only there. Each has its own quota, prices and models.')
param chatSku string = 'GlobalStandard'

@minValue(1)
@description('How much the model that answers may do: in thousands of tokens, and about as many requests, a minute. A question costs two thousand tokens, and one request or two.')
param chatCapacity int = 100

@description('The model that makes vectors. Another one needs the documents to be indexed anew.')
param embeddingModel string = 'text-embedding-3-small'

@description('The version of the model that makes vectors.')
param embeddingModelVersion string = '1'

@allowed(['GlobalStandard', 'DataZoneStandard', 'Standard'])
@description('Where the texts of vectors may be processed, as chatSku.')
param embeddingSku string = 'GlobalStandard'

@minValue(1)
@description('How much the model that makes vectors may do, in thousands of tokens a minute: indexing waits for it, questions hardly use it.')
param embeddingCapacity int = 30

// https://learn.microsoft.com/azure/search/search-sku-tier, as of 2025-08-01
@allowed(['free', 'basic', 'standard', 'standard2', 'standard3', 'storage_optimized_l1', 'storage_optimized_l2'])
@description('The tier of Azure AI Search. free costs nothing, but: one a subscription, 50 MB, no semantic ranker, no identity of its own (so no --indexer), no private endpoint, and it may be deleted when idle. basic and standard cost by the hour, asked or not; standard has room for more than 15 GB, the others for more, at a higher price.')
param searchSku string = 'basic'

@description('Where Azure AI Search lies, where location has no capacity for it; empty, location.')
param searchLocation string = ''

@minValue(1)
@maxValue(12)
@description('How many copies of the search service answer: two for an availability that Microsoft guarantees, three while documents are indexed too. basic has three at most; free has one, whatever this says.')
param searchReplicas int = 1

@allowed(['disabled', 'free', 'standard'])
@description('The semantic ranker: off, its first 1,000 questions a month for nothing (then refused, and the app goes on without), or each one paid for. Always off in a region that has none.')
param semanticRanker string = 'free'

@minLength(2)
@maxLength(128)
@description('The index. Who fills it makes it.')
param searchIndex string = 'documents'

@description('Searches the index through a knowledge base, which the hook after provisioning creates. Needs the semantic ranker.')
param useKnowledgeBase bool = false

@allowed(['minimal', 'low', 'medium'])
@description('With useKnowledgeBase: whether chatModel plans the searches; it must be one that knowledge bases take.')
param knowledgeEffort string = 'minimal'

@minValue(1)
@maxValue(1000)
@description('How many instances the app may grow to. Reported not to be enforced for HTTP triggers (Azure/azure-functions-host issue 11790): the capacity of the models bounds what a flood of questions costs.')
param maximumInstanceCount int = 40

@allowed([512, 2048, 4096])
@description('The memory of one instance, in MB.')
param instanceMemoryMB int = 2048

@minValue(1)
@maxValue(1000)
@description('How many requests one instance serves at once. Left to the platform it is 1 for Python; the app waits far more than it computes.')
param perInstanceConcurrency int = 16

@minValue(0)
@maxValue(1000)
@description('How many instances always run, and are paid for, so that no question waits for a start.')
param alwaysReady int = 0

@description('Spreads instances of the app over the availability zones of the region. Two are then always ready, and paid for. Needs a storageSku over zones.')
param zoneRedundant bool = false

@description('The browser origins that may call, by commas, such as https://chat.example.com. Never *.')
param allowedOrigins string = ''

@description('The client id of the app registration that people sign in with (scripts/sign_in.py makes it). Empty: no sign-in, callers need a function key.')
param authClientId string = ''

@description('The client ids of other apps whose tokens are taken too, by commas.')
param authAllowedClients string = ''

@allowed(['Return401', 'RedirectToLoginPage'])
@description('What a caller gets who has not signed in: a 401, as suits an API, or the sign-in page, as suits links in a browser.')
param authUnauthenticated string = 'Return401'

@description('Lets anyone call, without a key, where there is no sign-in. Every question costs you money.')
param openToAll bool = false

@secure()
@description('The key that OpenAI\'s clients come in by, at /v1 and /openai, of 20 characters or more. Empty: only people who have signed in come in there.')
param chatApiKey string = ''

@description('Keeps conversations in Azure Cosmos DB, where there is sign-in: without it they would be nobody\'s.')
param useMemory bool = true

@description('Where conversations are stored, where location has no capacity for Cosmos DB; empty: location.')
param cosmosLocation string = ''

@minValue(0)
@maxValue(24855) // an item's time to live is seconds in 32 bits
@description('For how many days conversations are kept; 0: until their owner deletes them.')
param memoryDays int = 90

@description('Lets users agree to copies of the answers that they rate, in a container of their own.')
param feedbackCopies bool = false

@description('Lets people who have signed in bring documents of their own, which an app of its own reads.')
param takesUploads bool = false

@allowed(['Periodic', 'Continuous7Days', 'Continuous30Days'])
@description('How conversations are backed up: every four hours, restored by Microsoft\'s support, or continuously, restored by you to any moment of 7 or 30 days. There is no way back from continuous to periodic.')
param cosmosBackup string = 'Periodic'

@allowed(['Standard_LRS', 'Standard_ZRS', 'Standard_GRS', 'Standard_GZRS', 'Standard_RAGRS', 'Standard_RAGZRS'])
@description('How the storage accounts are copied: in one data center, over zones, or to another region too. A change from or to zones is a migration, which this does not start.')
param storageSku string = 'Standard_LRS'

@description('Puts search, models, storage and conversations behind private endpoints, and the app into a virtual network.')
param useVnet bool = false

@description('With useVnet: puts the app itself behind a private endpoint. Callers, and azd deploy, are then in the network, in a peered one, or among allowedIps.')
param privateApp bool = false

@description('With useVnet: the addresses of the network, /22 or more. Another range where it is peered with one that has the same addresses.')
param vnetPrefix string = '10.0.0.0/16'

@description('With useVnet: IPv4 addresses, by commas, that still reach search, models and documents from outside, and with privateApp the app, such as yours while you index. Empty: none.')
param allowedIps string = ''

@minValue(30)
@maxValue(730)
@description('For how many days logs are kept.')
param logRetentionDays int = 30

@description('How many GB of logs a day are taken at most; what comes after is lost. -1: no limit.')
param logDailyGb int = 1

@description('Sends the logs of search, models, documents and conversations to the workspace, too. They can hold what people search for.')
param diagnostics bool = false

@description('Who gets a mail where the app fails or is flooded with requests; empty: nobody.')
param alertEmail string = ''

@minValue(0)
@description('With alertEmail: how many answers may fail in fifteen minutes, and how many may be refused for quota.')
param alertErrors int = 10

@minValue(0)
@description('With alertEmail: how many requests may come in fifteen minutes.')
param alertRequests int = 1000

@description('The resource id of a search service that exists, in any group: it answers, and is not changed. Empty: one is created.')
param existingSearchId string = ''

@description('With existingSearchId: the semantic configuration of its index; empty: none.')
param existingSearchSemanticConfiguration string = ''

@description('With existingSearchId: whether its index has vectors of embeddingModel. Without, it is searched by words.')
param existingSearchVectors bool = true

@description('The resource id of an Azure OpenAI or Foundry resource that exists, in any group, with deployments that are named as chatModel and embeddingModel say: it answers, and is not changed. Empty: one is created.')
param existingOpenAiId string = ''

@description('The resource id of a Log Analytics workspace that exists, in any group: logs go there. Empty: one is created.')
param existingLogAnalyticsId string = ''

@description('Names of resources, by the keys of defaultNames below, where yours follow rules of your own. A name that exists elsewhere is refused by Azure.')
param resourceNames object = {}

@description('Tags on everything, by name, beside the one that azd needs.')
param resourceTags object = {}

@description('Settings of the app by name, all strings: those of docs/configuration.md that the template does not make. In place of a secret, a Key Vault reference.')
param appSettings object = {}

var tags = union(resourceTags, { 'azd-env-name': environmentName })
// azd keeps the output AZURE_RESOURCE_GROUP as a variable: with the name of the template's own group, that one goes on.
var ownGroup = 'rg-${environmentName}'
var groupName = empty(resourceGroupName) ? ownGroup : resourceGroupName
var token = toLower(uniqueString(subscription().id, environmentName, location))
// A resource cannot move to another region, so that one in another region has another name.
var searchRegion = empty(searchLocation) ? location : searchLocation
var searchToken = toLower(uniqueString(subscription().id, environmentName, searchRegion))
var cosmosRegion = empty(cosmosLocation) ? location : cosmosLocation
var cosmosToken = toLower(uniqueString(subscription().id, environmentName, cosmosRegion))
var openAiToken = toLower(uniqueString(subscription().id, environmentName, openAiLocation))
var defaultNames = {
  identity: 'id-${token}'
  logs: 'log-${token}'
  insights: 'appi-${token}'
  hostStorage: 'sthost${token}'
  documentStorage: 'stdocs${token}'
  search: 'srch-${searchToken}'
  openAi: 'oai-${openAiToken}'
  cosmos: 'cosmos-${cosmosToken}'
  network: 'vnet-${token}'
  plan: 'plan-${token}'
  app: 'func-${token}'
  uploadsIdentity: 'id-uploads-${token}'
  uploadsStorage: 'stupl${token}'
  uploadsPlan: 'plan-uploads-${token}'
  uploadsApp: 'func-uploads-${token}'
}
var names = union(defaultNames, resourceNames)
var signIn = !empty(authClientId)
var createSearch = empty(existingSearchId)
var createOpenAi = empty(existingOpenAiId)
var openAiParts = split(existingOpenAiId, '/') // /subscriptions/2/resourceGroups/4/providers/.../8
var callers = signIn ? 'signed-in' : openToAll ? 'anyone' : 'keys'
var memory = signIn && useMemory
var copies = memory && feedbackCopies
var nobodysUploads = 'AZURE_UPLOADS needs sign-in, as uploads belong to who has signed in: docs/sign-in.md, or azd env set AZURE_UPLOADS false.'
var storesUploads = takesUploads && (signIn ? true : fail(nobodysUploads))
// Azure refuses a template that gives a role to the same principal twice.
var indexersGroup = toLower(indexersGroupId) == toLower(principalId) ? '' : indexersGroupId
var indexers = concat(
  empty(principalId) ? [] : [{ id: principalId, type: principalType }],
  empty(indexersGroup) ? [] : [{ id: indexersGroup, type: 'Group' }]
)
var origins = filter(split(replace(allowedOrigins, ' ', ''), ','), one => !empty(one))
var ips = useVnet && !empty(allowedIps) ? filter(split(replace(allowedIps, ' ', ''), ','), one => !empty(one)) : []
var clients = filter(split(replace(authAllowedClients, ' ', ''), ','), one => !empty(one))
// Where Azure AI Search has no semantic ranker, by https://learn.microsoft.com/azure/search/search-region-support of
// 2025-10-09: Resource Manager refuses any other plan there. The first hook reads this list, too.
var regionsWithoutRanker = [
  'indonesiacentral'
  'israelcentral'
  'jioindiacentral'
  'malaysiawest'
  'mexicocentral'
  'newzealandnorth'
  'norwayeast'
  'southindia'
  'spaincentral'
]
var hasRanker = searchSku != 'free' && !contains(regionsWithoutRanker, toLower(replace(searchRegion, ' ', '')))
var ranker = hasRanker ? semanticRanker : 'disabled'
var noRanker = 'AZURE_USE_KNOWLEDGE_BASE needs the semantic ranker: a region that has it (AZURE_SEARCH_LOCATION), and neither AZURE_SEARCH_SKU=free nor AZURE_SEARCH_SEMANTIC_RANKER=disabled.'
var otherService = 'AZURE_USE_KNOWLEDGE_BASE creates a base in the search service of this template. For one that existed before: AZURE_SEARCH_KNOWLEDGE_BASE in AZURE_APP_SETTINGS.'
var hasKnowledgeBase = useKnowledgeBase && (createSearch ? true : fail(otherService))
// A knowledge base takes the vectors of the index only where the service makes that of the question.
var knowledgeSettings = hasKnowledgeBase ? {
  AZURE_SEARCH_KNOWLEDGE_BASE: ranker == 'disabled' ? fail(noRanker) : searchIndex
  AZURE_SEARCH_KNOWLEDGE_EFFORT: knowledgeEffort
  AZURE_SEARCH_VECTORIZER: 'true'
} : {}
var documents = 'documents'
var packages = 'packages'
var database = 'chat'
var answerCopies = 'feedback' // the name that the app knows
// In a search service that existed before, another environment may have uploads, too.
var uploadsIndex = createSearch ? '${searchIndex}-uploads' : '${searchIndex}-uploads-${token}'
var uploadsName = 'uploads' // the container and the queue
var uploadsSwitch = storesUploads ? { UPLOADS: 'on' } : {}
// The reader has the limits on uploads that the app has. What else may answer is code or a file that it has not.
var readerSettings = union(appSettings, uploadsSwitch, { CHAT_MODEL: 'azure-openai', MODEL_PROVIDERS: '' })
var conversations = 'memory' // another layout or partition key would be in another container: memory-2

// `azd down` deletes the groups that a deployment declares (since azd 1.24.1), so an existing one is not declared.
resource group 'Microsoft.Resources/resourceGroups@2025-04-01' = if (toLower(groupName) == toLower(ownGroup)) {
  name: ownGroup
  location: location
  // Other templates of azd name their groups in the same way: the first hook refuses a group without this tag.
  tags: union(tags, { 'azd-template': 'serverless-rag-chat' })
}

// Only read: what existed before gets roles at most, by the hook after provisioning.
resource existingOpenAi 'Microsoft.CognitiveServices/accounts@2025-06-01' existing = if (!createOpenAi) {
  scope: resourceGroup(createOpenAi ? subscription().subscriptionId : openAiParts[2], createOpenAi ? groupName : openAiParts[4])
  name: createOpenAi ? 'none' : last(openAiParts)
}

module identity 'modules/identity.bicep' = {
  scope: resourceGroup(groupName)
  dependsOn: [group]
  params: {
    name: names.identity
    location: location
    tags: tags
  }
}

module monitoring 'modules/monitoring.bicep' = {
  scope: resourceGroup(groupName)
  dependsOn: [group]
  params: {
    workspaceName: names.logs
    insightsName: names.insights
    location: location
    tags: tags
    existingWorkspaceId: existingLogAnalyticsId
    retentionDays: logRetentionDays
    dailyGb: logDailyGb
  }
}

// Two accounts, because the host must own the one that it works in, and the app only reads the other.
module hostStorage 'modules/storage.bicep' = {
  scope: resourceGroup(groupName)
  dependsOn: [group]
  params: {
    name: names.hostStorage
    location: location
    tags: tags
    sku: storageSku
    container: packages
    closed: useVnet
    allowedIps: []
  }
}

module documentStorage 'modules/storage.bicep' = {
  scope: resourceGroup(groupName)
  dependsOn: [group]
  params: {
    name: names.documentStorage
    location: location
    tags: tags
    sku: storageSku
    container: documents
    closed: useVnet
    allowedIps: ips
  }
}

module search 'modules/search.bicep' = if (createSearch) {
  scope: resourceGroup(groupName)
  dependsOn: [group]
  params: {
    name: names.search
    location: searchRegion
    tags: tags
    sku: useVnet && searchSku == 'free' ? fail('AZURE_SEARCH_SKU=free has no private endpoint: take basic with AZURE_USE_VNET.') : searchSku
    semanticRanker: ranker
    replicas: searchSku == 'free' ? 1 : searchReplicas
    closed: useVnet
    allowedIps: ips
  }
}

module openAi 'modules/openai.bicep' = if (createOpenAi) {
  scope: resourceGroup(groupName)
  dependsOn: [group]
  params: {
    name: names.openAi
    location: openAiLocation
    tags: tags
    chatModel: chatModel
    chatModelVersion: chatModelVersion
    chatSku: chatSku
    chatCapacity: chatCapacity
    embeddingModel: embeddingModel
    embeddingModelVersion: embeddingModelVersion
    embeddingSku: embeddingSku
    embeddingCapacity: embeddingCapacity
    closed: useVnet
    allowedIps: ips
  }
}

var searchEndpoint = createSearch ? search!.outputs.endpoint : 'https://${last(split(existingSearchId, '/'))}.search.windows.net'
var semanticConfiguration = !createSearch ? existingSearchSemanticConfiguration : ranker == 'disabled' ? '' : 'default'
// Entra ID gives tokens only for a subdomain of one's own; a resource that was created without one has keys alone.
var noSubdomain = 'AZURE_EXISTING_OPENAI_ID: the resource has no subdomain of its own, which tokens need: az cognitiveservices account update --custom-domain NAME'
var openAiEndpoint = createOpenAi ? openAi!.outputs.endpoint : empty(existingOpenAi!.properties.customSubDomainName) ? fail(noSubdomain) : 'https://${existingOpenAi!.properties.customSubDomainName}.openai.azure.com/'
var chatDeployment = createOpenAi ? openAi!.outputs.chatDeployment : chatModel
var embeddingDeployment = !createSearch && !existingSearchVectors ? '' : createOpenAi ? openAi!.outputs.embeddingDeployment : embeddingModel

module cosmos 'modules/cosmos.bicep' = if (memory) {
  scope: resourceGroup(groupName)
  dependsOn: [group]
  params: {
    name: names.cosmos
    location: cosmosRegion
    tags: tags
    database: database
    container: conversations
    copies: copies ? answerCopies : ''
    backup: cosmosBackup
    closed: useVnet
    allowedIps: ips
  }
}

module uploadIdentity 'modules/identity.bicep' = if (storesUploads) {
  scope: resourceGroup(groupName)
  dependsOn: [group]
  params: {
    name: names.uploadsIdentity
    location: location
    tags: tags
  }
}

module uploadStorage 'modules/uploads_storage.bicep' = if (storesUploads) {
  scope: resourceGroup(groupName)
  dependsOn: [group]
  params: {
    name: names.uploadsStorage
    location: location
    tags: tags
    sku: storageSku
    uploadsName: uploadsName
    packages: packages
    closed: useVnet
  }
}

var uploadEndpoints = storesUploads ? [{ name: 'uploads', resourceId: uploadStorage!.outputs.id, group: 'blob' }, { name: 'upload-messages', resourceId: uploadStorage!.outputs.id, group: 'queue' }] : []

module network 'modules/network.bicep' = if (useVnet) {
  scope: resourceGroup(groupName)
  // A Cosmos DB account takes one change at a time.
  dependsOn: [roles]
  params: {
    name: names.network
    location: location
    tags: tags
    prefix: vnetPrefix
    endpoints: concat(
      [
        { name: 'host', resourceId: hostStorage.outputs.id, group: 'blob' }
        { name: 'documents', resourceId: documentStorage.outputs.id, group: 'blob' }
      ],
      createSearch ? [{ name: 'search', resourceId: search!.outputs.id, group: 'searchService' }] : [],
      createOpenAi ? [{ name: 'openai', resourceId: openAi!.outputs.id, group: 'account' }] : [],
      uploadEndpoints,
      memory ? [{ name: 'memory', resourceId: cosmos!.outputs.id, group: 'Sql' }] : []
    )
  }
}

module diagnosticSettings 'modules/diagnostics.bicep' = if (diagnostics) {
  scope: resourceGroup(groupName)
  params: {
    workspaceId: monitoring.outputs.workspaceId
    documentStorageName: documentStorage.outputs.name
    searchName: createSearch ? search!.outputs.name : ''
    openAiName: createOpenAi ? openAi!.outputs.name : ''
    cosmosName: memory ? cosmos!.outputs.name : ''
  }
}

module alerts 'modules/alerts.bicep' = if (!empty(alertEmail)) {
  scope: resourceGroup(groupName)
  params: {
    token: token
    location: location
    tags: tags
    email: alertEmail
    insightsId: monitoring.outputs.insightsId
    errors: alertErrors
    requests: alertRequests
    takesUploads: storesUploads
  }
}

module roles 'modules/roles.bicep' = {
  scope: resourceGroup(groupName)
  params: {
    appPrincipalId: identity.outputs.principalId
    searchPrincipalId: createSearch ? search!.outputs.principalId : ''
    indexers: indexers
    hostStorageName: hostStorage.outputs.name
    documentStorageName: documentStorage.outputs.name
    documentContainer: documents
    searchName: createSearch ? search!.outputs.name : ''
    openAiName: createOpenAi ? openAi!.outputs.name : ''
    cosmosName: memory ? cosmos!.outputs.name : ''
    cosmosDatabase: database
    cosmosContainer: conversations
    cosmosCopies: copies ? answerCopies : ''
    insightsName: monitoring.outputs.insightsName
  }
}

module uploadRoles 'modules/uploads_roles.bicep' = if (storesUploads) {
  scope: resourceGroup(groupName)
  params: {
    appPrincipalId: identity.outputs.principalId
    readerPrincipalId: storesUploads ? uploadIdentity!.outputs.principalId : ''
    storageName: storesUploads ? uploadStorage!.outputs.name : ''
    uploadsName: uploadsName
    searchName: createSearch ? search!.outputs.name : ''
    openAiName: createOpenAi ? openAi!.outputs.name : ''
    insightsName: monitoring.outputs.insightsName
  }
}

module app 'modules/app.bicep' = {
  scope: resourceGroup(groupName)
  // The host fails at its first start where it may not use its storage: the roles go first.
  dependsOn: [roles]
  params: {
    name: names.app
    planName: names.plan
    location: location
    tags: tags
    identityId: identity.outputs.id
    identityClientId: identity.outputs.clientId
    packagesUrl: '${hostStorage.outputs.endpoint}${packages}'
    subnetId: useVnet ? network!.outputs.appSubnetId : ''
    closed: privateApp && !useVnet ? fail('AZURE_PRIVATE_APP needs AZURE_USE_VNET=true: its endpoint is in that network.') : privateApp
    allowedIps: ips
    zoneRedundant: zoneRedundant && !contains(storageSku, 'ZRS') ? fail('AZURE_ZONE_REDUNDANT needs AZURE_STORAGE_SKU Standard_ZRS, Standard_GZRS or Standard_RAGZRS: the app starts from its storage.') : zoneRedundant
    maximumInstanceCount: maximumInstanceCount
    instanceMemoryMB: instanceMemoryMB
    perInstanceConcurrency: perInstanceConcurrency
    alwaysReady: alwaysReady
    allowedOrigins: contains(origins, '*') ? fail('AZURE_ALLOWED_ORIGINS must name origins: with * every web site could call.') : origins
    authClientId: authClientId
    authAllowedClients: clients
    authUnauthenticated: authUnauthenticated
    chatApiKey: !empty(chatApiKey) && length(chatApiKey) < 20 ? fail('AZURE_CHAT_API_KEY must have 20 characters or more: openssl rand -base64 30 makes one.') : chatApiKey
    settings: union(appSettings, knowledgeSettings, uploadsSwitch, {
      AzureWebJobsStorage__accountName: hostStorage.outputs.name // the URI alone can lose a race at the host's start
      AzureWebJobsStorage__blobServiceUri: hostStorage.outputs.endpoint
      AzureWebJobsStorage__credential: 'managedidentity'
      AzureWebJobsStorage__clientId: identity.outputs.clientId
      APPLICATIONINSIGHTS_CONNECTION_STRING: monitoring.outputs.connectionString
      APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identity.outputs.clientId};Authorization=AAD'
      AZURE_CLIENT_ID: identity.outputs.clientId
      AZURE_SEARCH_ENDPOINT: searchEndpoint
      AZURE_SEARCH_INDEX: searchIndex
      AZURE_SEARCH_SEMANTIC_CONFIGURATION: semanticConfiguration
      AZURE_OPENAI_ENDPOINT: openAiEndpoint
      AZURE_OPENAI_CHAT_DEPLOYMENT: chatDeployment
      AZURE_OPENAI_EMBEDDING_DEPLOYMENT: embeddingDeployment
      AZURE_STORAGE_ENDPOINT: documentStorage.outputs.endpoint
      AZURE_STORAGE_CONTAINER: documents
      AZURE_COSMOS_ENDPOINT: memory ? cosmos!.outputs.endpoint : ''
      AZURE_COSMOS_DATABASE: memory ? cosmos!.outputs.database : ''
      AZURE_COSMOS_CONTAINER: memory ? cosmos!.outputs.container : ''
      MEMORY_DAYS: memory ? string(memoryDays) : ''
      FEEDBACK_COPIES: feedbackCopies && !memory ? fail('AZURE_FEEDBACK_COPIES needs stored conversations: sign-in, and AZURE_USE_MEMORY=true.') : copies ? 'on' : ''
      AZURE_UPLOADS_ENDPOINT: storesUploads ? uploadStorage!.outputs.endpoint : ''
      AZURE_UPLOADS_QUEUE_ENDPOINT: storesUploads ? uploadStorage!.outputs.queueEndpoint : ''
      AZURE_UPLOADS_INDEX: storesUploads ? uploadsIndex : ''
      CALLERS: callers
      ALLOWED_ORIGINS: join(origins, ',')
    })
  }
}

module privateAppEndpoint 'modules/private_app.bicep' = if (privateApp && useVnet) {
  scope: resourceGroup(groupName)
  params: {
    networkName: useVnet ? network!.outputs.name : ''
    location: location
    tags: tags
    networkId: useVnet ? network!.outputs.id : ''
    subnetId: useVnet ? network!.outputs.endpointSubnetId : ''
    siteId: app.outputs.id
  }
}

module uploadReader 'modules/uploads_app.bicep' = if (storesUploads) {
  scope: resourceGroup(groupName)
  dependsOn: [uploadRoles] // as the app's
  params: {
    name: names.uploadsApp
    planName: names.uploadsPlan
    location: location
    tags: tags
    identityId: storesUploads ? uploadIdentity!.outputs.id : ''
    packagesUrl: storesUploads ? '${uploadStorage!.outputs.endpoint}${packages}' : ''
    subnetId: useVnet ? network!.outputs.appSubnetId : '' // apps of Flex Consumption may share one
    deployedPrivately: privateApp
    deployingIps: ips
    zoneRedundant: zoneRedundant
    maximumInstanceCount: 2 // more would take the model that makes vectors from the questions
    instanceMemoryMB: 2048
    settings: union(readerSettings, {
      AzureWebJobsStorage__accountName: storesUploads ? uploadStorage!.outputs.name : ''
      AzureWebJobsStorage__blobServiceUri: storesUploads ? uploadStorage!.outputs.endpoint : ''
      AzureWebJobsStorage__queueServiceUri: storesUploads ? uploadStorage!.outputs.queueEndpoint : ''
      AzureWebJobsStorage__credential: 'managedidentity'
      AzureWebJobsStorage__clientId: storesUploads ? uploadIdentity!.outputs.clientId : ''
      APPLICATIONINSIGHTS_CONNECTION_STRING: monitoring.outputs.connectionString
      APPLICATIONINSIGHTS_AUTHENTICATION_STRING: storesUploads ? 'ClientId=${uploadIdentity!.outputs.clientId};Authorization=AAD' : ''
      AZURE_CLIENT_ID: storesUploads ? uploadIdentity!.outputs.clientId : ''
      AZURE_SEARCH_ENDPOINT: searchEndpoint
      AZURE_SEARCH_INDEX: searchIndex
      AZURE_OPENAI_ENDPOINT: openAiEndpoint
      AZURE_OPENAI_CHAT_DEPLOYMENT: chatDeployment
      AZURE_OPENAI_EMBEDDING_DEPLOYMENT: embeddingDeployment
      AZURE_UPLOADS_ENDPOINT: storesUploads ? uploadStorage!.outputs.endpoint : ''
      AZURE_UPLOADS_QUEUE_ENDPOINT: storesUploads ? uploadStorage!.outputs.queueEndpoint : ''
      AZURE_UPLOADS_INDEX: storesUploads ? uploadsIndex : ''
      CALLERS: callers
    })
  }
}

module uploadEndpoint 'modules/uploads_endpoint.bicep' = if (storesUploads && privateApp && useVnet) {
  scope: resourceGroup(groupName)
  dependsOn: [privateAppEndpoint]
  params: {
    networkName: useVnet ? network!.outputs.name : ''
    location: location
    tags: tags
    subnetId: useVnet ? network!.outputs.endpointSubnetId : ''
    siteId: storesUploads ? uploadReader!.outputs.id : ''
  }
}

// azd keeps these in its environment. Those that are named as the app's settings are what `make run` on a laptop takes.
output AZURE_LOCATION string = location
output AZURE_TENANT_ID string = tenant().tenantId
output AZURE_RESOURCE_GROUP string = groupName
output SERVICE_API_NAME string = app.outputs.name
output SERVICE_API_URI string = app.outputs.uri
output SERVICE_API_CALLERS string = callers // for the first call that the hook after deployment prints
// Whom scripts/sign_in.py trusts in the place of a secret.
output SERVICE_API_IDENTITY_PRINCIPAL_ID string = identity.outputs.principalId
output AZURE_SEARCH_ENDPOINT string = searchEndpoint
output AZURE_SEARCH_INDEX string = searchIndex
output AZURE_SEARCH_SEMANTIC_CONFIGURATION string = semanticConfiguration
output AZURE_SEARCH_KNOWLEDGE_BASE string = hasKnowledgeBase ? searchIndex : ''
output AZURE_SEARCH_KNOWLEDGE_EFFORT string = hasKnowledgeBase ? knowledgeEffort : ''
output AZURE_SEARCH_VECTORIZER string = hasKnowledgeBase ? 'true' : ''
output AZURE_OPENAI_ENDPOINT string = openAiEndpoint
output AZURE_OPENAI_CHAT_DEPLOYMENT string = chatDeployment
output AZURE_OPENAI_EMBEDDING_DEPLOYMENT string = embeddingDeployment
output AZURE_STORAGE_ENDPOINT string = documentStorage.outputs.endpoint
output AZURE_STORAGE_CONTAINER string = documents
// What was deployed, which may differ from what was set: the hook after provisioning reads these.
output AZURE_RESOURCE_MANAGER_URL string = environment().resourceManager
output AZURE_INDEXER_ID string = principalId
output AZURE_INDEXER_TYPE string = principalType
output AZURE_INDEXERS_GROUP_ID_IN_USE string = indexersGroup
output AZURE_SEARCH_PRINCIPAL_ID string = createSearch ? search!.outputs.principalId : ''
output AZURE_EXISTING_SEARCH_ID_IN_USE string = existingSearchId
output AZURE_EXISTING_OPENAI_ID_IN_USE string = existingOpenAiId
output AZURE_UPLOADS_IN_USE bool = storesUploads
output AZURE_UPLOADS_INDEX_IN_USE string = storesUploads ? uploadsIndex : ''
output SERVICE_UPLOADS_NAME string = storesUploads ? uploadReader!.outputs.name : ''
output SERVICE_UPLOADS_IDENTITY_PRINCIPAL_ID string = storesUploads ? uploadIdentity!.outputs.principalId : ''
output AZURE_VNET_IN_USE bool = useVnet
output AZURE_PRIVATE_APP_IN_USE bool = privateApp
output AZURE_ALLOWED_IPS_IN_USE string = join(ips, ',')
// What `make index ARGS="--indexer --storage ..."` asks for.
output AZURE_STORAGE_ID string = documentStorage.outputs.id
