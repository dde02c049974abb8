metadata description = 'The private endpoint of the app: callers in the network, and in peered ones, reach it by its usual name.'

@description('The name of the network.')
param networkName string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@description('The resource id of the network.')
param networkId string

@description('The subnet of private endpoints.')
param subnetId string

@description('The resource id of the app.')
param siteId string

resource zone 'Microsoft.Network/privateDnsZones@2024-06-01' = {
  name: 'privatelink.azurewebsites.net'
  location: 'global'
  tags: tags
}

resource link 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = {
  parent: zone
  name: networkName
  location: 'global'
  tags: tags
  properties: {
    registrationEnabled: false
    virtualNetwork: { id: networkId }
  }
}

resource endpoint 'Microsoft.Network/privateEndpoints@2025-05-01' = {
  name: 'pe-app-${networkName}'
  location: location
  tags: tags
  properties: {
    subnet: { id: subnetId }
    privateLinkServiceConnections: [
      {
        name: 'app'
        properties: { privateLinkServiceId: siteId, groupIds: ['sites'] }
      }
    ]
  }
}

// The group also registers the address that azd deploys to, NAME.scm.azurewebsites.net.
resource names 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2025-05-01' = {
  parent: endpoint
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: 'app'
        properties: { privateDnsZoneId: zone.id }
      }
    ]
  }
  dependsOn: [link]
}
