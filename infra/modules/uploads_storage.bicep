metadata description = 'What users upload, and the queue of what is to be read: one storage account, opened by roles alone.'

@minLength(3)
@maxLength(24)
@description('The name of the account.')
param name string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@description('How it is copied.')
param sku string

@description('The name of the container of uploads, and of the queue.')
param uploadsName string

@description('The container that the package of the reader is deployed to.')
param packages string

@description('Whether only private endpoints lead here.')
param closed bool

resource account 'Microsoft.Storage/storageAccounts@2025-06-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: sku }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    publicNetworkAccess: closed ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: closed ? 'Deny' : 'Allow'
    }
  }
}

// What its owner deletes is deleted: nothing of it is kept.
resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' = {
  parent: account
  name: 'default'
  properties: {
    deleteRetentionPolicy: { enabled: false }
    containerDeleteRetentionPolicy: { enabled: false }
    isVersioningEnabled: false
  }
}

resource uploadContainer 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' = {
  parent: blobs
  name: uploadsName
  properties: { publicAccess: 'None' }
}

resource packageContainer 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' = {
  parent: blobs
  name: packages
  properties: { publicAccess: 'None' }
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-06-01' = {
  parent: account
  name: 'default'
}

resource uploadMessages 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-06-01' = {
  parent: queueService
  name: uploadsName
}

// The host moves a message here that has failed as often as host.json says.
resource failedMessages 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-06-01' = {
  parent: queueService
  name: '${uploadsName}-poison'
}

output id string = account.id
output name string = account.name
output endpoint string = account.properties.primaryEndpoints.blob
output queueEndpoint string = account.properties.primaryEndpoints.queue
