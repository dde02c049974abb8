metadata description = 'Who may do what with uploads: every role that they add, and no more.'

@description('The app that answers.')
param appPrincipalId string

@description('The reader of uploads.')
param readerPrincipalId string

@description('The storage account of uploads.')
param storageName string

@description('The name of the container of uploads, and of the queue.')
param uploadsName string

@description('The search service; empty, one that exists answers, and its role is not given here.')
param searchName string

@description('The Foundry resource; empty, as above.')
param openAiName string

@description('The Application Insights resource.')
param insightsName string

var definitionIds = {
  storageBlobDataOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
  storageBlobDataContributor: 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
  storageQueueDataContributor: '974c5e8b-45b9-4653-ba55-5f855dd0fb88'
  storageQueueDataMessageSender: 'c6a89b2d-59bc-44d0-9896-0f6e12d7b80a'
  searchIndexDataContributor: '8ebe5a00-799e-43f5-93ac-243d3dce84a7'
  cognitiveServicesOpenAIUser: '5e0bd9bd-7b93-4f28-af87-19fc36ad61bd'
  monitoringMetricsPublisher: '3913510d-42f4-4e42-8a64-420c390055eb'
}
// An empty name is refused also where nothing is made of it.
var searchService = empty(searchName) ? 'none' : searchName
var openAiAccount = empty(openAiName) ? 'none' : openAiName

resource storage 'Microsoft.Storage/storageAccounts@2025-06-01' existing = {
  name: storageName

  resource blobs 'blobServices' existing = {
    name: 'default'

    resource uploadContainer 'containers' existing = {
      name: uploadsName
    }
  }

  resource queueService 'queueServices' existing = {
    name: 'default'

    resource uploadMessages 'queues' existing = {
      name: uploadsName
    }
  }
}

resource search 'Microsoft.Search/searchServices@2025-05-01' existing = {
  name: searchService
}

resource openAi 'Microsoft.CognitiveServices/accounts@2025-06-01' existing = {
  name: openAiAccount
}

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: insightsName
}

resource appWritesUploads 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: storage::blobs::uploadContainer
  name: guid(storage::blobs::uploadContainer.id, appPrincipalId, definitionIds.storageBlobDataContributor)
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', definitionIds.storageBlobDataContributor)
  }
}

resource appSendsMessages 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: storage::queueService::uploadMessages
  name: guid(storage::queueService::uploadMessages.id, appPrincipalId, definitionIds.storageQueueDataMessageSender)
  properties: {
    principalId: appPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', definitionIds.storageQueueDataMessageSender)
  }
}

// Its host works in this account, too, in containers that it makes itself: its package, its locks, its keys.
resource readerOwnsStorage 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: storage
  name: guid(storage.id, readerPrincipalId, definitionIds.storageBlobDataOwner)
  properties: {
    principalId: readerPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', definitionIds.storageBlobDataOwner)
  }
}

resource readerTakesMessages 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: storage
  name: guid(storage.id, readerPrincipalId, definitionIds.storageQueueDataContributor)
  properties: {
    principalId: readerPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', definitionIds.storageQueueDataContributor)
  }
}

// A service gives this role on all its indexes. It creates none: who provisions does.
resource readerWritesIndex 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(searchName)) {
  scope: search
  name: guid(search.id, readerPrincipalId, definitionIds.searchIndexDataContributor)
  properties: {
    principalId: readerPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', definitionIds.searchIndexDataContributor)
  }
}

resource readerCallsModels 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(openAiName)) {
  scope: openAi
  name: guid(openAi.id, readerPrincipalId, definitionIds.cognitiveServicesOpenAIUser)
  properties: {
    principalId: readerPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', definitionIds.cognitiveServicesOpenAIUser)
  }
}

resource readerWritesTelemetry 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: insights
  name: guid(insights.id, readerPrincipalId, definitionIds.monitoringMetricsPublisher)
  properties: {
    principalId: readerPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', definitionIds.monitoringMetricsPublisher)
  }
}
