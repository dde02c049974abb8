metadata description = 'The logs of search, models, documents and conversations, sent to the workspace. They can hold what people search for.'

@description('The workspace.')
param workspaceId string

@description('The storage account of the documents.')
param documentStorageName string

@description('The search service; empty, there is none here.')
param searchName string

@description('The Foundry resource; empty, there is none here.')
param openAiName string

@description('The Cosmos DB account of conversations; empty, there is none.')
param cosmosName string

var settings = {
  workspaceId: workspaceId
  logs: [{ categoryGroup: 'allLogs', enabled: true }]
}
// An empty name is refused also where nothing is made of it.
var searchService = empty(searchName) ? 'none' : searchName
var openAiAccount = empty(openAiName) ? 'none' : openAiName
var cosmosAccount = empty(cosmosName) ? 'none' : cosmosName

resource documentStorage 'Microsoft.Storage/storageAccounts@2025-06-01' existing = {
  name: documentStorageName

  resource blobs 'blobServices' existing = {
    name: 'default'
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

resource documentLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: documentStorage::blobs
  name: 'workspace'
  properties: settings
}

resource searchLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (!empty(searchName)) {
  scope: search
  name: 'workspace'
  properties: settings
}

resource modelLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (!empty(openAiName)) {
  scope: openAi
  name: 'workspace'
  properties: settings
}

resource conversationLogs 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (!empty(cosmosName)) {
  scope: cosmos
  name: 'workspace'
  properties: settings
}
