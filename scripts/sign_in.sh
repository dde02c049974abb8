#!/usr/bin/env bash
# Makes the app registration that people sign in with. It has no secret: the app's own identity vouches for it.
# After `azd up`, once, by someone who may register applications: scripts/sign_in.sh, then `azd provision`.
# Only people and groups that are assigned may sign in. The script assigns whoever runs it, as Chat.User; docs/deploy.md assigns others.
#   --allow-azure-cli  lets the Azure CLI get tokens for the app: `az account get-access-token`
#   --everyone         lets everyone in the tenant sign in, guests included, without an assignment
#   --remove           takes the registration away (azd down does not)
# It may be run again, and then writes what its options say: scope, redirect, authorized apps, whether assignment is required. The
# roles Chat.User and Chat.Admin are made where there is none of that name; Chat.Admin is given to nobody.
set -euo pipefail

graph=https://graph.microsoft.com/v1.0
azure_cli=04b07795-8ddb-461a-bbee-02f9e1bf7b46      # Microsoft's id of the Azure CLI, the same in every tenant
scope=6b1f7a52-4c3e-4d0b-9a55-0f8f7d1c2e90          # of our making: one scope, known again in a second run
admin=4d2c8e1b-93a7-4f56-b1d8-5e0a7c6f2b34          # of our making, too: the role Chat.Admin
user=a3f0c5d7-2b18-4e69-8c47-91d6e2b7f058           # and the role Chat.User

fail() {
  echo "$1" >&2
  exit 1
}

value() { # value NAME: of azd's environment, or nothing
  local found
  if found=$(azd env get-value "$1" 2>/dev/null); then echo "$found"; fi
}

usage="Usage: scripts/sign_in.sh [--allow-azure-cli] [--everyone], or: scripts/sign_in.sh --remove"
allow_cli='' assignment_required=true remove=''
for option in "$@"; do
  case $option in
    --allow-azure-cli) allow_cli=yes ;;
    --everyone) assignment_required=false ;;
    --remove) remove=yes ;;
    *) fail "$usage" ;;
  esac
done
[ -z "$remove" ] || [ $# = 1 ] || fail "$usage"

learn=https://learn.microsoft.com
command -v az >/dev/null || fail "Install az first: $learn/cli/azure/install-azure-cli"
command -v azd >/dev/null || fail "Install azd first: $learn/azure/developer/azure-developer-cli/install-azd"

client=$(value AZURE_AUTH_CLIENT_ID)

gone() { # whether somebody has deleted the registration: 3 is what az says of what is not there
  local status=0
  az ad app show --id "$client" --output none 2>/dev/null || status=$?
  [ "$status" = 3 ]
}

if [ -n "$remove" ]; then
  [ -n "$client" ] || fail "There is nothing to remove: AZURE_AUTH_CLIENT_ID is not set."
  gone || az ad app delete --id "$client"
  azd env set AZURE_AUTH_CLIENT_ID ""
  echo "Removed. Where the app is to stay, run: azd provision (it asks for function keys again)."
  exit
fi

name=$(value AZURE_ENV_NAME)
tenant=$(value AZURE_TENANT_ID)
uri=$(value SERVICE_API_URI)
identity=$(value SERVICE_API_IDENTITY_PRINCIPAL_ID)
if [ -z "$uri" ] || [ -z "$identity" ] || [ -z "$tenant" ]; then
  fail "There is no app yet: run azd up first."
fi
[ "$(az account show --query tenantId --output tsv)" = "$tenant" ] ||
  fail "az is signed in to another tenant: az login --tenant $tenant"

if [ -n "$client" ] && gone; then
  echo "The registration $client is gone."
  client=
fi
if [ -z "$client" ]; then
  echo "Making the app registration ..."
  client=$(az ad app create --display-name "chat $name" --sign-in-audience AzureADMyOrg --query appId --output tsv)
  azd env set AZURE_AUTH_CLIENT_ID "$client"
fi

patiently() { # a registration that was just made is not found everywhere for some seconds
  local times
  for times in 1 2 3 4 5; do
    "$@" && return
    echo "That did not work (try $times of 6); again in 5 seconds ..." >&2
    sleep 5
  done
  "$@"
}

registered() { # registered PRE_AUTHORIZED: what the registration says, written whole, so that a second run mends it
  az rest --method PATCH --uri "$graph/applications(appId='$client')" \
    --headers Content-Type=application/json --body "{
      \"identifierUris\": [\"api://$client\"],
      \"groupMembershipClaims\": \"SecurityGroup\",
      \"web\": {
        \"redirectUris\": [\"$uri/.auth/login/aad/callback\"],
        \"implicitGrantSettings\": {\"enableIdTokenIssuance\": true}
      },
      \"api\": {
        \"requestedAccessTokenVersion\": 2,
        \"oauth2PermissionScopes\": [{
          \"id\": \"$scope\", \"value\": \"user_impersonation\", \"type\": \"User\", \"isEnabled\": true,
          \"adminConsentDisplayName\": \"Ask the chat\", \"adminConsentDescription\": \"Ask the chat as the signed-in user\",
          \"userConsentDisplayName\": \"Ask the chat\", \"userConsentDescription\": \"Ask the chat in your name\"
        }],
        \"preAuthorizedApplications\": $1
      }
    }"
}

echo "Writing what it says ..."
patiently registered "[]" # a scope must be there before anyone is authorized for it
if [ -n "$allow_cli" ]; then
  patiently registered "[{\"appId\": \"$azure_cli\", \"delegatedPermissionIds\": [\"$scope\"]}]"
fi

# Roles, too, are written whole, and Graph takes none away that is enabled: what others made stays, and so does an id that
# people were given a role by. `origin` is not asked for, as Graph refuses to be told it.
fields="allowedMemberTypes: allowedMemberTypes, description: description, displayName: displayName"
roles=$(patiently az ad app show --id "$client" --output json \
  --query "appRoles[].{$fields, id: id, isEnabled: isEnabled, value: value}")
new_roles=
need_role() { # need_role VALUE ID DISPLAY_NAME DESCRIPTION: adds the role to `new_roles` where there is none
  grep -Eq "\"value\": ?\"${1/./\\.}\"|$2" <<<"$roles" && return
  new_roles="${new_roles:+$new_roles, }{
    \"id\": \"$2\", \"value\": \"$1\", \"isEnabled\": true, \"allowedMemberTypes\": [\"User\", \"Application\"],
    \"displayName\": \"$3\", \"description\": \"$4\"
  }"
}
need_role Chat.Admin "$admin" "Chat administrator" "May change the pipelines of the deployment"
need_role Chat.User "$user" "Chat user" "May sign in"
if [ -n "$new_roles" ]; then
  echo "Making the roles that are missing ..."
  others=$(tr -d '\r\n' <<<"$roles" | sed -E 's/^ *\[ *//; s/ *\] *$//')
  patiently az rest --method PATCH --uri "$graph/applications(appId='$client')" \
    --headers Content-Type=application/json --body "{\"appRoles\": [${others:+$others, }$new_roles]}"
fi

az ad sp show --id "$client" --output none 2>/dev/null || patiently az ad sp create --id "$client" --output none
service=$(patiently az ad sp show --id "$client" --query id --output tsv)
patiently az rest --method PATCH --uri "$graph/servicePrincipals/$service" \
  --headers Content-Type=application/json --body "{\"appRoleAssignmentRequired\": $assignment_required}"

trusted=$(az ad app federated-credential list --id "$client" --query "[?subject=='$identity'].name" --output tsv)
if [ -z "$trusted" ]; then
  echo "Trusting the app's identity in the place of a secret ..."
  patiently az ad app federated-credential create --id "$client" --output none --parameters "{
    \"name\": \"app-$identity\",
    \"issuer\": \"https://login.microsoftonline.com/$tenant/v2.0\",
    \"subject\": \"$identity\",
    \"audiences\": [\"api://AzureADTokenExchange\"]
  }"
fi

old_clients=$(value AZURE_AUTH_ALLOWED_CLIENTS)
clients=",${old_clients// /},"
clients=${clients//,$azure_cli,/,}
clients=${clients#,} clients=${clients%,}
[ -z "$allow_cli" ] || clients=${clients:+$clients,}$azure_cli
[ "$clients" = "$old_clients" ] || azd env set AZURE_AUTH_ALLOWED_CLIENTS "$clients"

assign() { # assign PERSON: as Chat.User, where the person has no role yet, neither directly nor by a group
  local role assignments
  assignments=$(az rest --method GET --uri "$graph/users/$1/appRoleAssignments" \
    --uri-parameters "\$filter=resourceId eq $service" --query "value[].appRoleId" --output tsv) || return
  [ -z "$assignments" ] || return 0
  role=$(az ad app show --id "$client" --query "appRoles[?value=='Chat.User'].id | [0]" --output tsv)
  echo "Assigning you to the app ..."
  # Not the role of zeros: Graph takes that one only where the registration declares no roles.
  patiently az rest --method POST --uri "$graph/servicePrincipals/$service/appRoleAssignedTo" --output none \
    --headers Content-Type=application/json \
    --body "{\"principalId\": \"$1\", \"resourceId\": \"$service\", \"appRoleId\": \"${role:-$user}\"}"
}

if [ $assignment_required = false ]; then
  echo "Everyone in the tenant may sign in."
elif person=$(az ad signed-in-user show --query id --output tsv 2>/dev/null); then
  assign "$person" || fail "You may sign in only when somebody assigns you (docs/deploy.md). All else is done; then run: azd provision"
  echo "Only assigned people can sign in: you, and those you assign (docs/deploy.md)."
else
  echo "Nobody is assigned: az is signed in as a service principal. Assign people (docs/deploy.md)."
fi
[ -n "$allow_cli" ] || echo "The Azure CLI gets no tokens for the app; --allow-azure-cli changes that."
echo "Where a pipeline provisions, it knows the old values: run azd pipeline config again."
echo "Done. Now run: azd provision"
