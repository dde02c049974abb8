metadata description = 'A virtual network: a subnet that the app calls from, and a private endpoint for each service it calls.'

@description('One service: a name for its endpoint, its id, and which of its endpoints is meant.')
type endpoint = {
  name: string
  resourceId: string
  group: 'blob' | 'searchService' | 'account' | 'Sql'
}

@description('The name of the network.')
param name string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@description('What is reached privately.')
param endpoints endpoint[]

var zonesOfGroup = {
  blob: ['privatelink.blob.${environment().suffixes.storage}']
  searchService: ['privatelink.search.windows.net']
  // A Foundry resource has a name in each of them.
  account: ['privatelink.openai.azure.com', 'privatelink.cognitiveservices.azure.com', 'privatelink.services.ai.azure.com']
  Sql: ['privatelink.documents.azure.com']
}
var groups = map(endpoints, endpoint => endpoint.group)
var zoneNames = union(flatten(map(groups, group => zonesOfGroup[group])), [])

resource network 'Microsoft.Network/virtualNetworks@2025-05-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: { addressPrefixes: ['10.0.0.0/16'] }
    subnets: [
      {
        name: 'endpoints'
        properties: {
          addressPrefix: '10.0.1.0/24'
          defaultOutboundAccess: false
        }
      }
      {
        name: 'app'
        properties: {
          addressPrefix: '10.0.2.0/24'
          // The app's logs leave by a public address, which new subnets do not reach of themselves.
          defaultOutboundAccess: true
          // Flex Consumption's; a name with an underscore is refused for such a subnet.
          delegations: [{ name: 'flex', properties: { serviceName: 'Microsoft.App/environments' } }]
        }
      }
    ]
  }

  resource endpointSubnet 'subnets' existing = { name: 'endpoints' }
  resource appSubnet 'subnets' existing = { name: 'app' }
}

resource zones 'Microsoft.Network/privateDnsZones@2024-06-01' = [
  for zone in zoneNames: {
    name: zone
    location: 'global'
    tags: tags
  }
]

resource links 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = [
  for (zone, i) in zoneNames: {
    parent: zones[i]
    name: name
    location: 'global'
    tags: tags
    properties: {
      registrationEnabled: false
      virtualNetwork: { id: network.id }
    }
  }
]

resource privateEndpoints 'Microsoft.Network/privateEndpoints@2025-05-01' = [
  for one in endpoints: {
    name: 'pe-${one.name}-${name}'
    location: location
    tags: tags
    properties: {
      subnet: { id: network::endpointSubnet.id }
      privateLinkServiceConnections: [
        {
          name: one.name
          properties: { privateLinkServiceId: one.resourceId, groupIds: [one.group] }
        }
      ]
    }
  }
]

resource names 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2025-05-01' = [
  for (one, i) in endpoints: {
    parent: privateEndpoints[i]
    name: 'default'
    properties: {
      privateDnsZoneConfigs: [
        for zone in zonesOfGroup[one.group]: {
          name: replace(zone, '.', '-')
          properties: { privateDnsZoneId: resourceId('Microsoft.Network/privateDnsZones', zone) }
        }
      ]
    }
    dependsOn: [links]
  }
]

output appSubnetId string = network::appSubnet.id
