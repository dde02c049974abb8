metadata description = 'The private endpoint of the reader of uploads: deployments come through it.'

@description('The name of the network.')
param networkName string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@description('The subnet of private endpoints.')
param subnetId string

@description('The resource id of the reader.')
param siteId string

// Made with the endpoint of the app, and linked to the network.
resource zone 'Microsoft.Network/privateDnsZones@2024-06-01' existing = {
  name: 'privatelink.azurewebsites.net'
}

resource endpoint 'Microsoft.Network/privateEndpoints@2025-05-01' = {
  name: 'pe-uploads-reader-${networkName}'
  location: location
  tags: tags
  properties: {
    subnet: { id: subnetId }
    privateLinkServiceConnections: [
      {
        name: 'reader'
        properties: { privateLinkServiceId: siteId, groupIds: ['sites'] }
      }
    ]
  }
}

resource names 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2025-05-01' = {
  parent: endpoint
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: 'reader'
        properties: { privateDnsZoneId: zone.id }
      }
    ]
  }
}
