metadata description = 'Who may do what: every role that this template gives, and no more.'

@description('A person, program or group by its object id.')
type indexer = {
  id: string
  type: 'User' | 'ServicePrincipal' | 'Group'
}

@description('The app.')
param appPrincipalId string

@description('The search service, which reads documents itself where `make index ARGS=--indexer` told it to; empty, it has no identity.')
param searchPrincipalId string

@description('Who may index documents.')
param indexers indexer[]

@description('The storage account that the Functions host works in.')
param hostStorageName string

@description('The storage account of the documents.')
param documentStorageName string

@description('The container of the documents.')
param documentContainer string

@description('The search service; empty, one that exists answers, and its roles are not given here.')
param searchName string

@description('The Foundry resource; empty, as above.')
param openAiName string

@description('The Cosmos DB account of conversations; empty, there is none.')
param cosmosName string

@description('The database of conversations.')
param cosmosDatabase string

@description('The container of conversations.')
param cosmosContainer string

@description('The container of answer copies; empty, there is none.')
param cosmosCopies string

@description('The Application Insights resource.')
param insightsName string

var roleIds = {
  storageBlobDataOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
  storageBlobDataContributor: 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
  storageBlobDataReader: '2a2b9908-6ea1-4ae2-8e65-a410df84e7d1'
  searchIndexDataReader: '1407120a-92aa-4202-b7e9-c0e197c71c8f'
  searchIndexDataContributor: '8ebe5a00-799e-43f5-93ac-243d3dce84a7'
  searchServiceContributor: '7ca78c08-252a-4471-8644-bb5ff32d4ba0'
  cognitiveServicesOpenAIUser: '5e0bd9bd-7b93-4f28-af87-19fc36ad61bd'
  monitoringMetricsPublisher: '3913510d-42f4-4e42-8a64-420c390055eb'
  cosmosDbBuiltInDataContributor: '00000000-0000-0000-0000-000000000002' // Cosmos DB's own, the same in every account
}
// An empty name is refused also where nothing is made of it.
var searchService = empty(searchName) ? 'none' : searchName
var openAiAccount = empty(openAiName) ? 'none' : openAiName
var searchIndexers = empty(searchName) ? [] : indexers
var modelIndexers = empty(openAiName) ? [] : indexers
var cosmosAccount = empty(cosmosName) ? 'none' : cosmosName

resource hostStorage 'Microsoft.Storage/storageAccounts@2025-06-01' existing = {
  name: hostStorageName
}

resource documentStorage 'Microsoft.Storage/storageAccounts@2025-06-01' existing = {
  name: documentStorageName

  resource blobs 'blobServices' existing = {
    name: 'default'

    resource documents 'containers' existing = {
      name: documentContainer
    }
  }
}

resource search 'Microsoft.Search/searchServices@2025-05-01' existing = {
  name: searchService
}

resource openAi 'Microsoft.CognitiveServices/accounts@2025-06-01' existing = {
  name: openAiAccount
}

resource cosmos 'Microsoft.DocumentDB/databaseAccounts@2025-04-15' existing = {
  name: cosmosAccount
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: insightsName
}

// The host keeps its keys and locks in containers that it makes itself. Owner is what its documentation asks for;
// a narrower role is not documented, and nothing else lies in this account.
resource appOwnsHostStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: hostStorage
  name: guid(hostStorage.id, appPrincipalId, roleIds.storageBlobDataOwner)
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.storageBlobDataOwner)
  }
}

resource appReadsDocuments 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: documentStorage::blobs::documents
  name: guid(documentStorage::blobs::documents.id, appPrincipalId, roleIds.storageBlobDataReader)
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.storageBlobDataReader)
  }
}

resource appReadsIndex 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(searchName)) {
  scope: search
  name: guid(search.id, appPrincipalId, roleIds.searchIndexDataReader)
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.searchIndexDataReader)
  }
}

resource appAsksModels 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(openAiName)) {
  scope: openAi
  name: guid(openAi.id, appPrincipalId, roleIds.cognitiveServicesOpenAIUser)
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.cognitiveServicesOpenAIUser)
  }
}

resource appWritesTelemetry 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: insights
  name: guid(insights.id, appPrincipalId, roleIds.monitoringMetricsPublisher)
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.monitoringMetricsPublisher)
  }
}

// The app alone: who provisions has no need to read what others asked. A laptop remembers in a file (MEMORY_FILE).
resource appKeepsConversations 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2024-11-15' = if (!empty(cosmosName)) {
  parent: cosmos
  name: guid(cosmos.id, cosmosDatabase, cosmosContainer, appPrincipalId, roleIds.cosmosDbBuiltInDataContributor)
  properties: {
    principalId: appPrincipalId
    roleDefinitionId: '${cosmos.id}/sqlRoleDefinitions/${roleIds.cosmosDbBuiltInDataContributor}'
    scope: '${cosmos.id}/dbs/${cosmosDatabase}/colls/${cosmosContainer}'
  }
}

// Their readers get a role of their own: docs/answer-copies.md.
resource appKeepsCopies 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2024-11-15' = if (!empty(cosmosCopies)) {
  parent: cosmos
  dependsOn: [appKeepsConversations] // an account takes one change at a time
  name: guid(cosmos.id, cosmosDatabase, cosmosCopies, appPrincipalId, roleIds.cosmosDbBuiltInDataContributor)
  properties: {
    principalId: appPrincipalId
    roleDefinitionId: '${cosmos.id}/sqlRoleDefinitions/${roleIds.cosmosDbBuiltInDataContributor}'
    scope: '${cosmos.id}/dbs/${cosmosDatabase}/colls/${cosmosCopies}'
  }
}

resource indexersWriteDocuments 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for indexer in indexers: {
    scope: documentStorage::blobs::documents
    name: guid(documentStorage::blobs::documents.id, indexer.id, roleIds.storageBlobDataContributor)
    properties: {
      principalId: indexer.id
      principalType: indexer.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.storageBlobDataContributor)
    }
  }
]

resource indexersWriteIndex 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for indexer in searchIndexers: {
    scope: search
    name: guid(search.id, indexer.id, roleIds.searchIndexDataContributor)
    properties: {
      principalId: indexer.id
      principalType: indexer.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.searchIndexDataContributor)
    }
  }
]

// Makes the index, and grows it by the fields that it lacks.
resource indexersCreateIndex 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for indexer in searchIndexers: {
    scope: search
    name: guid(search.id, indexer.id, roleIds.searchServiceContributor)
    properties: {
      principalId: indexer.id
      principalType: indexer.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.searchServiceContributor)
    }
  }
]

resource indexersCallModels 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for indexer in modelIndexers: {
    scope: openAi
    name: guid(openAi.id, indexer.id, roleIds.cognitiveServicesOpenAIUser)
    properties: {
      principalId: indexer.id
      principalType: indexer.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.cognitiveServicesOpenAIUser)
    }
  }
]

// On the account, as its documentation says: an indexer names the account, then the container.
resource searchReadsDocuments 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(searchPrincipalId)) {
  scope: documentStorage
  name: guid(documentStorage.id, searchPrincipalId, roleIds.storageBlobDataReader)
  properties: {
    principalId: searchPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.storageBlobDataReader)
  }
}

resource searchAsksModels 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(searchPrincipalId) && !empty(openAiName)) {
  scope: openAi
  name: guid(openAi.id, searchPrincipalId, roleIds.cognitiveServicesOpenAIUser)
  properties: {
    principalId: searchPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', roleIds.cognitiveServicesOpenAIUser)
  }
}
