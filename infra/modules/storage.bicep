metadata description = 'One storage account with one container, opened by roles alone.'

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

@description('The name of the container.')
param container string

@description('Whether only private endpoints and allowedIps lead here.')
param closed bool

@description('IPv4 addresses that still do.')
param allowedIps string[]

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
    publicNetworkAccess: closed && empty(allowedIps) ? 'Disabled' : 'Enabled'
    networkAcls: {
      bypass: 'AzureServices'
      defaultAction: closed ? 'Deny' : 'Allow'
      ipRules: [for ip in allowedIps: { action: 'Allow', value: ip }]
    }
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-01-01' = {
  parent: account
  name: 'default'
  properties: {
    // Azure AI Search's own indexer notices deleted files only by soft delete, and only without versions.
    deleteRetentionPolicy: { enabled: true, days: 7 }
    isVersioningEnabled: false
  }
}

resource folder 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-01-01' = {
  parent: blobs
  name: container
  properties: { publicAccess: 'None' }
}

output id string = account.id
output name string = account.name
output endpoint string = account.properties.primaryEndpoints.blob
