metadata description = 'Azure AI Search, asked and filled by roles alone.'

@description('The name of the service.')
param name string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@allowed(['free', 'basic', 'standard', 'standard2', 'standard3', 'storage_optimized_l1', 'storage_optimized_l2'])
@description('The tier.')
param sku string

@allowed(['disabled', 'free', 'standard'])
@description('The plan of the semantic ranker.')
param semanticRanker string

@description('How many copies of it answer.')
param replicas int

@description('Whether only private endpoints and allowedIps lead here.')
param closed bool

@description('IPv4 addresses that still do.')
param allowedIps string[]

resource service 'Microsoft.Search/searchServices@2025-05-01' = {
  name: name
  location: location
  tags: tags
  sku: { name: sku }
  // For `make index ARGS=--indexer`: the service then reads the documents itself. The free tier has none.
  identity: sku == 'free' ? null : { type: 'SystemAssigned' }
  properties: {
    replicaCount: replicas
    partitionCount: 1
    disableLocalAuth: true
    semanticSearch: semanticRanker
    publicNetworkAccess: closed && empty(allowedIps) ? 'Disabled' : 'Enabled'
    networkRuleSet: {
      ipRules: [for ip in allowedIps: { value: ip }]
    }
  }
}

output id string = service.id
output name string = service.name
output endpoint string = 'https://${service.name}.search.windows.net'
output principalId string = sku == 'free' ? '' : service.identity.principalId
