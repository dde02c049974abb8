metadata description = 'Mail where the app fails, or is flooded with requests. Each rule looks at the last fifteen minutes.'

@description('What makes the names unique.')
param token string

@description('Where the rules lie.')
param location string

@description('Tags.')
param tags object

@description('Who is told.')
param email string

@description('The Application Insights resource of the app.')
param insightsId string

@description('How many answers may fail, and how many may be refused for quota.')
param errors int

@description('How many requests may come.')
param requests int

@description('Whether users may upload documents.')
param takesUploads bool

// The app's own line of a request (docs/operations.md) is a warning where it, or a service behind it, failed: also in a
// stream, whose status is 200. What failed before the app, such as a start, is in `requests` alone.
var failedRequests = 'requests | where toint(resultCode) >= 500'
var failedStreams = 'traces | where message startswith "WARNING" and message contains " dialect=" and message contains " status=200 "'

var answerRules = [
  {
    name: 'errors'
    description: 'More answers failed than AZURE_ALERT_ERRORS.'
    query: 'union (${failedRequests}), (${failedStreams})'
    threshold: errors
  }
  {
    name: 'quota'
    description: 'More questions were refused with a 429 than AZURE_ALERT_ERRORS: the quota of a model is used up.'
    query: 'requests | where resultCode == "429"'
    threshold: errors
  }
  {
    name: 'flood'
    description: 'More requests came than AZURE_ALERT_REQUESTS.'
    query: 'requests'
    threshold: requests
  }
]
// The reader's function that handles a message after five failures: that is never the fault of the document.
var uploadRules = takesUploads ? [
  {
    name: 'uploads'
    description: 'An upload could not be read or removed, because a service failed five times.'
    query: 'requests | where name == "give_up_upload"'
    threshold: 0
  }
] : []
var rules = concat(answerRules, uploadRules)

resource mail 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: 'ag-${token}'
  location: 'global'
  tags: tags
  properties: {
    enabled: true
    groupShortName: 'chat'
    emailReceivers: [{ name: 'mail', emailAddress: email, useCommonAlertSchema: true }]
  }
}

resource alerts 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [
  for rule in rules: {
    name: 'alert-${rule.name}-${token}'
    location: location
    tags: tags
    properties: {
      description: rule.description
      severity: 2
      enabled: true
      skipQueryValidation: true // `requests` can be unknown until the first one was logged
      scopes: [insightsId]
      evaluationFrequency: 'PT15M'
      windowSize: 'PT15M'
      criteria: {
        allOf: [
          {
            query: rule.query
            timeAggregation: 'Count'
            operator: 'GreaterThan'
            threshold: rule.threshold
            failingPeriods: { numberOfEvaluationPeriods: 1, minFailingPeriodsToAlert: 1 }
          }
        ]
      }
      autoMitigate: true
      actions: { actionGroups: [mail.id] }
    }
  }
]
