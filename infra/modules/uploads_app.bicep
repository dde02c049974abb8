metadata description = 'The reader of uploads, on a Flex Consumption plan of its own: a queue starts it, and nobody calls it.'

@description('The name of the app.')
param name string

@description('The name of its plan.')
param planName string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@description('The resource id of its identity.')
param identityId string

@description('The address of the container that packages are deployed to.')
param packagesUrl string

@description('The subnet that it calls from; empty, none.')
param subnetId string

@description('Whether deployments come only through its private endpoint and from deployingIps.')
param deployedPrivately bool

@description('IPv4 addresses that deployments then still come from.')
param deployingIps string[]

@description('Whether its instances are in several availability zones.')
param zoneRedundant bool

@description('How many instances it may grow to: each reads one upload at a time.')
param maximumInstanceCount int

@description('The memory of one instance, in MB.')
param instanceMemoryMB int

@description('The app settings.')
param settings object

resource plan 'Microsoft.Web/serverfarms@2025-03-01' = {
  name: planName
  location: location
  tags: tags
  kind: 'functionapp'
  sku: { name: 'FC1', tier: 'FlexConsumption' }
  properties: { reserved: true, zoneRedundant: zoneRedundant }
}

resource site 'Microsoft.Web/sites@2025-03-01' = {
  name: name
  location: location
  tags: union(tags, { 'azd-service-name': 'uploads' })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: { '${identityId}': {} }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    keyVaultReferenceIdentity: identityId
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    publicNetworkAccess: deployedPrivately && empty(deployingIps) ? 'Disabled' : 'Enabled'
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: packagesUrl
          authentication: { type: 'UserAssignedIdentity', userAssignedIdentityResourceId: identityId }
        }
      }
      runtime: { name: 'python', version: '3.13' }
      scaleAndConcurrency: {
        instanceMemoryMB: instanceMemoryMB
        maximumInstanceCount: maximumInstanceCount
      }
    }
    siteConfig: {
      minTlsVersion: '1.2'
      ipSecurityRestrictionsDefaultAction: 'Deny' // it answers no request
      scmIpSecurityRestrictionsUseMain: false
      scmIpSecurityRestrictionsDefaultAction: deployedPrivately ? 'Deny' : 'Allow'
      scmIpSecurityRestrictions: [
        for ip in (deployedPrivately ? deployingIps : []): {
          name: replace(ip, '/', '-')
          action: 'Allow'
          priority: 100
          ipAddress: contains(ip, '/') ? ip : '${ip}/32'
        }
      ]
      appSettings: [for setting in items(settings): { name: setting.key, value: setting.value }]
    }
  }

  // Deploying by user name and password: azd signs in instead.
  resource noFtp 'basicPublishingCredentialsPolicies' = {
    name: 'ftp'
    properties: { allow: false }
  }

  resource noScm 'basicPublishingCredentialsPolicies' = {
    name: 'scm'
    properties: { allow: false }
  }
}

output id string = site.id
output name string = site.name
