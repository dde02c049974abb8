metadata description = 'A virtual network: a subnet that the app calls from, and a private endpoint for each service it calls.'

@description('One service: a name for its endpoint, its id, and which of its endpoints is meant.')
type endpoint = {
  name: string
  resourceId: string
  group: 'blob' | 'queue' | 'searchService' | 'account' | 'Sql'
}

@description('The name of the network.')
param name string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

@description('Its addresses, /22 or more.')
param prefix string

@description('What is reached privately.')
param endpoints endpoint[]

var zonesOfGroup = {
  blob: ['privatelink.blob.${environment().suffixes.storage}']
  queue: ['privatelink.queue.${environment().suffixes.storage}']
  searchService: ['privatelink.search.windows.net']
  // A Foundry resource has a name in each of them.
  account: ['privatelink.openai.azure.com', 'privatelink.cognitiveservices.azure.com', 'privatelink.services.ai.azure.com']
  Sql: ['privatelink.documents.azure.com']
}
var groups = map(endpoints, endpoint => endpoint.group)
var zoneNames = union(flatten(map(groups, group => zonesOfGroup[group])), [])

// HTTPS alone, from this network and those that are peered with it; Azure's default rules let every port in.
resource endpointRules 'Microsoft.Network/networkSecurityGroups@2025-05-01' = {
  name: 'nsg-endpoints-${name}'
  location: location
  tags: tags
  properties: {
    securityRules: [
      {
        name: 'AllowHttps'
        properties: {
          priority: 100
          direction: 'Inbound'
          access: 'Allow'
          protocol: 'Tcp'
          sourceAddressPrefix: 'VirtualNetwork'
          sourcePortRange: '*'
          destinationAddressPrefix: '*'
          destinationPortRange: '443'
        }
      }
      {
        name: 'DenyOther'
        properties: {
          priority: 4096
          direction: 'Inbound'
          access: 'Deny'
          protocol: '*'
          sourceAddressPrefix: '*'
          sourcePortRange: '*'
          destinationAddressPrefix: '*'
          destinationPortRange: '*'
        }
      }
    ]
  }
}

// Azure's default rules alone: the subnet is for calls of the app, and what its platform needs of it is not documented.
resource appRules 'Microsoft.Network/networkSecurityGroups@2025-05-01' = {
  name: 'nsg-app-${name}'
  location: location
  tags: tags
  properties: { securityRules: [] }
}

resource network 'Microsoft.Network/virtualNetworks@2025-05-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: { addressPrefixes: [prefix] }
    subnets: [
      {
        name: 'endpoints'
        properties: {
          addressPrefix: cidrSubnet(prefix, 24, 1)
          networkSecurityGroup: { id: endpointRules.id }
          privateEndpointNetworkPolicies: 'NetworkSecurityGroupEnabled' // else its rules do not hold for endpoints
          defaultOutboundAccess: false
        }
      }
      {
        name: 'app'
        properties: {
          addressPrefix: cidrSubnet(prefix, 24, 2)
          networkSecurityGroup: { id: appRules.id }
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

// The version that also has links; Azure Verified Modules use 2020-06-01 for zones.
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

output id string = network.id
output name string = network.name
output appSubnetId string = network::appSubnet.id
output endpointSubnetId string = network::endpointSubnet.id
