metadata description = 'Azure Cosmos DB for NoSQL, serverless: the memory of conversations, read and written by role alone.'

@description('The name of the account, and the host in its address.')
param name string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@description('The name of the database.')
param database string

@description('The name of the container.')
param container string

@description('The name of the container of answer copies; empty, there is none.')
param copies string

@allowed(['Periodic', 'Continuous7Days', 'Continuous30Days'])
@description('How it is backed up.')
param backup string

@description('Whether only private endpoints and allowedIps lead here.')
param closed bool

@description('IPv4 addresses that still do.')
param allowedIps string[]

resource account 'Microsoft.DocumentDB/databaseAccounts@2025-04-15' = {
  name: name
  location: location
  tags: tags
  kind: 'GlobalDocumentDB'
  properties: {
    databaseAccountOfferType: 'Standard'
    capabilities: [{ name: 'EnableServerless' }]
    locations: [{ locationName: location, failoverPriority: 0, isZoneRedundant: false }]
    // What one instance of the app wrote, another one reads a moment later: a session would be each instance's own.
    consistencyPolicy: { defaultConsistencyLevel: 'Strong' }
    disableLocalAuth: true
    minimalTlsVersion: 'Tls12'
    publicNetworkAccess: closed && empty(allowedIps) ? 'Disabled' : 'Enabled'
    ipRules: [for ip in allowedIps: { ipAddressOrRange: ip }]
    backupPolicy: backup != 'Periodic' ? {
      type: 'Continuous'
      continuousModeProperties: { tier: backup }
    } : {
      type: 'Periodic'
      periodicModeProperties: {
        backupIntervalInMinutes: 240
        backupRetentionIntervalInHours: 8
        backupStorageRedundancy: 'Local' // the default copies conversations to another region
      }
    }
  }
}

resource sql 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2025-04-15' = {
  parent: account
  name: database
  properties: { resource: { id: database } }
}

resource memory 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2025-04-15' = {
  parent: sql
  name: container
  properties: {
    resource: {
      id: container
      partitionKey: { paths: ['/owner'], kind: 'Hash', version: 2 }
      defaultTtl: -1 // nothing ends but what says itself when
      indexingPolicy: {
        indexingMode: 'consistent'
        automatic: true
        // What queries ask for, and no more: an index of long texts would cost at each write, and be asked by none.
        includedPaths: [
          { path: '/owner/?' } // a partition key is in no index of itself where all else is left out
          { path: '/conversation/?' }
          { path: '/sort/?' }
          { path: '/bytes/?' }
          { path: '/request/?' }
        ]
        excludedPaths: [{ path: '/*' }]
        // ORDER BY two fields is refused without one; it serves both ascending and both descending.
        compositeIndexes: [
          [
            { path: '/conversation', order: 'ascending' }
            { path: '/sort', order: 'ascending' }
          ]
        ]
      }
    }
  }
}

resource answerCopies 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2025-04-15' = if (!empty(copies)) {
  parent: sql
  dependsOn: [memory] // an account takes one change at a time
  name: empty(copies) ? 'none' : copies
  properties: {
    resource: {
      id: copies
      partitionKey: { paths: ['/owner'], kind: 'Hash', version: 2 }
      defaultTtl: -1
      indexingPolicy: {
        indexingMode: 'consistent'
        automatic: true
        includedPaths: [
          { path: '/owner/?' }
          { path: '/conversation/?' }
        ]
        excludedPaths: [{ path: '/*' }]
      }
    }
  }
}

output id string = account.id
output name string = account.name
output endpoint string = account.properties.documentEndpoint
output database string = sql.name
output container string = memory.name
