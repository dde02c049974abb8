metadata description = 'The app itself, on Flex Consumption: nothing runs and nothing is paid while nobody asks.'

@description('The name of the app, and the host in its address.')
param name string

@description('The name of its plan.')
param planName string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@description('The resource id of its identity.')
param identityId string

@description('The client id of its identity.')
param identityClientId string

@description('The address of the container that packages are deployed to.')
param packagesUrl string

@description('The subnet that it calls from; empty, none.')
param subnetId string

@description('Whether only its private endpoint and allowedIps lead to it, also for deployments.')
param closed bool

@description('IPv4 addresses that still do.')
param allowedIps string[]

@description('Whether its instances are in several availability zones.')
param zoneRedundant bool

@description('How many instances it may grow to.')
param maximumInstanceCount int

@description('The memory of one instance, in MB.')
param instanceMemoryMB int

@description('How many requests one instance serves at once.')
param perInstanceConcurrency int

@description('How many instances always run.')
param alwaysReady int

@description('The browser origins that may call.')
param allowedOrigins string[]

@description('The client id of the app registration for sign-in; empty, no sign-in.')
param authClientId string

@description('The client ids of other apps whose tokens are taken.')
param authAllowedClients string[]

@allowed(['Return401', 'RedirectToLoginPage'])
@description('What a caller gets who has not signed in.')
param authUnauthenticated string

@description('The app settings.')
param settings object

@secure()
@description('The key of OpenAI\'s clients; empty, none.')
param chatApiKey string

var signIn = !empty(authClientId)
// Microsoft's, the same in every tenant: an MCP client in which people sign in to the app. scripts/app_registration.py has it, too.
var visualStudioCode = 'aebc6443-996d-45c2-90f0-388ff96faa56'
// The names are the platform's. It signs in by the identity in the place of a secret, and its answers to callers without
// a token (a preview, https://learn.microsoft.com/azure/app-service/configure-authentication-mcp) tell MCP clients where
// people sign in, and for which scope.
var signInSettings = signIn ? {
  OVERRIDE_USE_MI_FIC_ASSERTION_CLIENTID: identityClientId
  WEBSITE_AUTH_PRM_DEFAULT_WITH_SCOPES: 'api://${authClientId}/user_impersonation'
  SIGN_IN_TENANT_ID: tenant().tenantId
  SIGN_IN_CLIENT_ID: authClientId
} : {}
var keySettings = empty(chatApiKey) ? {} : { CHAT_API_KEY: chatApiKey }

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
  tags: union(tags, { 'azd-service-name': 'api' })
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
    publicNetworkAccess: closed && empty(allowedIps) ? 'Disabled' : 'Enabled'
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
        alwaysReady: alwaysReady == 0 ? [] : [{ name: 'http', instanceCount: alwaysReady }]
        triggers: { http: { perInstanceConcurrency: perInstanceConcurrency } }
      }
    }
    siteConfig: {
      minTlsVersion: '1.2'
      cors: { allowedOrigins: allowedOrigins }
      ipSecurityRestrictionsDefaultAction: closed ? 'Deny' : 'Allow'
      ipSecurityRestrictions: [
        for ip in (closed ? allowedIps : []): {
          name: replace(ip, '/', '-')
          action: 'Allow'
          priority: 100
          ipAddress: contains(ip, '/') ? ip : '${ip}/32'
        }
      ]
      scmIpSecurityRestrictionsUseMain: true // deployments come from where calls may come from
      appSettings: [
        for setting in items(union(settings, signInSettings, keySettings)): { name: setting.key, value: setting.value }
      ]
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

// Deployed in either case, so that sign-in also ends where its client id is taken away.
resource auth 'Microsoft.Web/sites/config@2025-03-01' = {
  parent: site
  name: 'authsettingsV2'
  properties: !signIn ? {
    platform: { enabled: false }
    globalValidation: { requireAuthentication: false, unauthenticatedClientAction: 'AllowAnonymous' }
  } : {
    platform: { enabled: true }
    globalValidation: {
      requireAuthentication: true
      unauthenticatedClientAction: authUnauthenticated
      redirectToProvider: 'azureactivedirectory'
      excludedPaths: ['/health'] // it says no more than which parts answer
    }
    httpSettings: { requireHttps: true }
    identityProviders: {
      azureActiveDirectory: {
        enabled: true
        registration: {
          clientId: authClientId
          clientSecretSettingName: 'OVERRIDE_USE_MI_FIC_ASSERTION_CLIENTID'
          openIdIssuer: '${environment().authentication.loginEndpoint}${tenant().tenantId}/v2.0'
        }
        validation: {
          allowedAudiences: [authClientId, 'api://${authClientId}']
          // Without it the token of any app in the tenant would do.
          defaultAuthorizationPolicy: { allowedApplications: union([authClientId, visualStudioCode], authAllowedClients) }
        }
      }
    }
    login: { tokenStore: { enabled: false } } // the app calls nothing in its users' names
  }
}

output id string = site.id
output name string = site.name
output uri string = 'https://${site.properties.defaultHostName}'
