"""Defines knowledge sources that Azure AI Search fills itself, in the API 2026-10-01.

`docs/knowledge-base.md` has an example of each kind. A file names a secret, and does not hold it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import unquote

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from ingest.targets.azure_search.openai_model import OpenAIModel

_GUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_SHORTEST, _LONGEST = timedelta(minutes=5), timedelta(days=1)  # of a schedule, the service's limits
_BLOBS = re.compile(
    r"https://([a-z0-9]{3,24})\.(?:z\d+\.)?(?:blob|dfs)\."
    r"(?:core\.windows\.net|core\.usgovcloudapi\.net|core\.chinacloudapi\.cn|storage\.azure\.net)"
    r"/([a-z0-9$-]+)((?:/[^?#;\s]*)?)"
)
_LAKEHOUSE = re.compile(
    rf"https://onelake\.(?:dfs|blob)\.fabric\.microsoft\.com/({_GUID})/({_GUID})(?:/Files)?"
    r"((?:/[^?#;\s]*)?)"
)
_STORAGE = re.compile(
    r"/subscriptions/[\w-]+/resourceGroups/[^/;]+/providers/Microsoft\.Storage/storageAccounts/"
    r"([a-z0-9]{3,24})",
    re.IGNORECASE,
)


def _form(pattern: str | re.Pattern[str], message: str) -> AfterValidator:
    """Make the check of a text by a pattern."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(message)
        return value

    return AfterValidator(check)


def _check_schedule(value: str) -> str:
    try:
        interval = TypeAdapter(timedelta).validate_python(value)
    except ValidationError:
        interval = timedelta()
    if not value.startswith("P") or not _SHORTEST <= interval <= _LONGEST:
        raise ValueError("must be an interval from PT5M to P1D, such as PT1H")
    return value


Guid = Annotated[str, _form(_GUID, "must be an id, such as 11111111-1111-1111-1111-111111111111")]
Name = Annotated[
    str,
    _form(r"[a-z0-9](?:[a-z0-9-]{0,126}[a-z0-9])?", "must be lower-case letters, digits and -"),
]
VariableName = Annotated[
    str, _form(r"[A-Z][A-Z0-9_]*", "must be the name of an environment variable, such as SECRET_1")
]


class _Source(BaseModel):
    """What the kinds of sources have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    description: str | None = None  # for the model that chooses among several sources
    # Whether the service takes over who may see a document, for searches by a user's token
    permissions: bool
    schedule: Annotated[str, AfterValidator(_check_schedule)] | None = None  # None: once

    def ingestion(
        self, model: OpenAIModel | None, permissions: tuple[str, ...] = ("userIds", "groupIds")
    ) -> dict[str, Any]:
        """Return how the documents are indexed. `permissions` are what the kind can take over."""
        optional = {
            "embeddingModel": model and model.to_json(),
            "ingestionSchedule": self.schedule and {"interval": self.schedule},
            "ingestionPermissionOptions": list(permissions) if self.permissions else None,
        }
        present = {name: value for name, value in optional.items() if value}
        return {"ingestionParameters": {"contentExtractionMode": "minimal", **present}}


class BlobSource(_Source):
    """Blobs of a container. The service signs in with its own identity."""

    kind: Literal["azureBlob"]
    address: Annotated[
        str, _form(_BLOBS, "must be https://ACCOUNT.blob.core.windows.net/CONTAINER/FOLDER")
    ]
    storage: Annotated[
        str, _form(_STORAGE, "must be the account's id, /subscriptions/.../storageAccounts/NAME")
    ]
    hierarchical: bool = False  # whether the account has a hierarchical namespace

    parameters_name: ClassVar[str] = "azureBlobParameters"
    secret: ClassVar[str | None] = None

    @model_validator(mode="after")
    def _check_account(self) -> Self:
        if self.storage.rpartition("/")[2].lower() != self.address[len("https://") :].split(".")[0]:
            raise ValueError("address and storage must name the same account")
        return self

    def parameters(self, _secret: str, model: OpenAIModel | None) -> Mapping[str, Any]:
        """Return the parameters of the kind."""
        _, container, folder = _groups(_BLOBS, self.address)
        lists = ("userIds", "groupIds") if self.hierarchical else ()
        return {
            "connectionString": f"ResourceId={self.storage};",
            "containerName": container,
            **({"folderPath": folder} if folder else {}),
            "isADLSGen2": self.hierarchical,
            **self.ingestion(model, (*lists, "rbacScope")),
        }


class SharePointSource(_Source):
    """Libraries of a SharePoint site, which an app registration may read."""

    kind: Literal["indexedSharePoint"]
    address: Annotated[
        str,
        _form(
            r"https://[\w-]+\.sharepoint\.(?:com|us|cn|de)(?:/[^?#;\s]*)?",
            "must be the site, such as https://contoso.sharepoint.com/sites/hr",
        ),
    ]
    tenant: Guid
    application: Guid
    secret: VariableName  # the name of the variable with the registration's secret
    libraries: Literal["defaultSiteLibrary", "allSiteLibraries"] = "defaultSiteLibrary"

    parameters_name: ClassVar[str] = "indexedSharePointParameters"

    def parameters(self, secret: str, model: OpenAIModel | None) -> Mapping[str, Any]:
        """Return the parameters of the kind, with the value of the secret."""
        connection = {
            "SharePointOnlineEndpoint": self.address,
            "ApplicationId": self.application,
            "ApplicationSecret": secret,
            "TenantId": self.tenant,
        }
        return {
            "connectionString": ";".join(f"{name}={value}" for name, value in connection.items()),
            "containerName": self.libraries,
            **self.ingestion(model),
        }


class OneLakeSource(_Source):
    """A folder of a lakehouse. The service signs in with its own identity."""

    kind: Literal["indexedOneLake"]
    address: Annotated[
        str,
        _form(
            _LAKEHOUSE,
            "must be https://onelake.dfs.fabric.microsoft.com/WORKSPACE/LAKEHOUSE/Files/FOLDER, "
            "with the ids of both",
        ),
    ]

    parameters_name: ClassVar[str] = "indexedOneLakeParameters"
    secret: ClassVar[str | None] = None

    def parameters(self, _secret: str, model: OpenAIModel | None) -> Mapping[str, Any]:
        """Return the parameters of the kind."""
        workspace, lakehouse, folder = _groups(_LAKEHOUSE, self.address)
        return {
            "fabricWorkspaceId": workspace,
            "lakehouseId": lakehouse,
            **({"targetPath": folder} if folder else {}),
            **self.ingestion(model),
        }


FORM = "must have a kind: azureBlob, indexedSharePoint or indexedOneLake"
SourceDefinition = BlobSource | SharePointSource | OneLakeSource
ADAPTER: TypeAdapter[SourceDefinition] = TypeAdapter(
    Annotated[SourceDefinition, Field(discriminator="kind")]
)


def to_json(source: SourceDefinition, secret: str, model: OpenAIModel | None) -> dict[str, Any]:
    """Return the definition of a source. `secret` is the value of the variable that it names."""
    definition = {
        "name": source.name,
        "kind": source.kind,
        source.parameters_name: source.parameters(secret, model),
    }
    return {**definition, "description": source.description} if source.description else definition


def _groups(pattern: re.Pattern[str], address: str) -> tuple[str, str, str]:
    """Return the two names of an address, and the path behind them."""
    match = pattern.fullmatch(address)
    assert match is not None  # it was checked
    first, second, path = match.groups()
    return first, second, unquote(path.strip("/"))
