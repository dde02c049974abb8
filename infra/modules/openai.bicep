metadata description = 'A Foundry resource with the model that answers and the one that makes vectors, called by roles alone.'

@description('The name of the resource, and the host in its address.')
param name string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@description('The model that answers.')
param chatModel string

@description('Its version.')
param chatModelVersion string

@description('Its SKU.')
param chatSku string

@description('Its thousands of tokens a minute.')
param chatCapacity int

@description('The model that makes vectors.')
param embeddingModel string

@description('Its version.')
param embeddingModelVersion string

@description('Its SKU.')
param embeddingSku string

@description('Its thousands of tokens a minute.')
param embeddingCapacity int

@description('Whether only private endpoints and allowedIps lead here.')
param closed bool

@description('IPv4 addresses that still do.')
param allowedIps string[]

resource account 'Microsoft.CognitiveServices/accounts@2025-06-01' = {
  name: name
  location: location
  tags: tags
  // Azure upgrades accounts of the kind OpenAI to this one; with the old kind here, the next deployment would revert it.
  kind: 'AIServices'
  identity: { type: 'SystemAssigned' } // as allowProjectManagement requires
  sku: { name: 'S0' }
  properties: {
    customSubDomainName: name // without one there are no tokens, only keys
    allowProjectManagement: true
    disableLocalAuth: true
    publicNetworkAccess: closed && empty(allowedIps) ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: closed ? 'Deny' : 'Allow'
      ipRules: [for ip in allowedIps: { value: ip }]
    }
  }
}

resource chat 'Microsoft.CognitiveServices/accounts/deployments@2025-06-01' = {
  parent: account
  name: chatModel
  sku: { name: chatSku, capacity: chatCapacity }
  properties: {
    model: { format: 'OpenAI', name: chatModel, version: chatModelVersion }
    // Not at every new default: an answer should change when you say so, or when the version ends.
    versionUpgradeOption: 'OnceCurrentVersionExpired'
  }
}

resource embedding 'Microsoft.CognitiveServices/accounts/deployments@2025-06-01' = {
  parent: account
  name: embeddingModel
  sku: { name: embeddingSku, capacity: embeddingCapacity }
  properties: {
    model: { format: 'OpenAI', name: embeddingModel, version: embeddingModelVersion }
    versionUpgradeOption: 'NoAutoUpgrade' // another version's vectors do not fit those in the index
  }
  dependsOn: [chat] // a resource makes one deployment at a time
}

output id string = account.id
output name string = account.name
// account.properties.endpoint is another one for this kind: https://NAME.cognitiveservices.azure.com/.
output endpoint string = 'https://${account.name}.openai.azure.com/'
output chatDeployment string = chat.name
output embeddingDeployment string = embedding.name
