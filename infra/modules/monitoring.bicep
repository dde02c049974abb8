metadata description = 'Where logs and measurements go, written by identity alone.'

@description('The name of the Log Analytics workspace.')
param workspaceName string

@description('The name of the Application Insights resource.')
param insightsName string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@description('A workspace that exists; empty: one is created.')
param existingWorkspaceId string

@description('For how many days logs are kept.')
param retentionDays int

@description('How many GB a day are taken at most.')
param dailyGb int

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-07-01' = if (empty(existingWorkspaceId)) {
  name: workspaceName
  location: location
  tags: tags
  properties: {
    sku: { name: 'PerGB2018' }
    retentionInDays: retentionDays
    workspaceCapping: { dailyQuotaGb: dailyGb }
    features: { disableLocalAuth: true }
  }
}

// How much of it is kept is said in host.json, which the host samples by.
var workspaceId = empty(existingWorkspaceId) ? workspace.id : existingWorkspaceId

resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: insightsName
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspaceId
    DisableLocalAuth: true
  }
}

output workspaceId string = workspaceId
output insightsId string = insights.id
output insightsName string = insights.name
output connectionString string = insights.properties.ConnectionString
