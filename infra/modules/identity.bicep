metadata description = 'Who the app is. Made before the app, so that its roles are there when it first starts.'

@description('The name of the identity.')
param name string

@description('Where it lies.')
param location string

@description('Tags.')
param tags object

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: name
  location: location
  tags: tags
}

output id string = identity.id
output clientId string = identity.properties.clientId
output principalId string = identity.properties.principalId
