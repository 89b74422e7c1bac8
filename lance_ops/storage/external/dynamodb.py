"""External manifest store in DynamoDB, in the table layout of the official library (`s3+ddb://`).

The table has the keys `base_uri` (string, hash) and `version` (number, range); rows have `path`, `size` and
`committer`. Reads are strongly consistent.
"""

import functools
import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

from lance_ops.errors import (
    AlreadyExistsError,
    CorruptManifestError,
    LanceOpsError,
    PermissionDeniedError,
    StorageError,
)
from lance_ops.extras import load_extra
from lance_ops.storage.external.manifest_store import ManifestEntry
from lance_ops.storage.manifest_names import DETACHED_BIT
from lance_ops.storage.options import plain_options, redact

_T = TypeVar("_T")
_COMMITTER = "lance-ops"
_ENDPOINT = "dynamodb_endpoint"
_DENIED = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)
_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 10, 20, 4
_CREATE = (
    "create it with the keys base_uri (S, HASH) and version (N, RANGE): aws dynamodb create-table "
    "--table-name {} --attribute-definitions AttributeName=base_uri,AttributeType=S "
    "AttributeName=version,AttributeType=N --key-schema AttributeName=base_uri,KeyType=HASH "
    "AttributeName=version,KeyType=RANGE --billing-mode PAY_PER_REQUEST"
)


class DynamoManifestStore:
    """Rows of a table in DynamoDB.

    Args:
        table: Its name.
        options: Storage options of the dataset, in the official library's names: credentials and region as
            for S3; `dynamodb_endpoint` for another server than Amazon's.
    """

    def __init__(self, table: str, options: Mapping[str, str]) -> None:
        self._table = table
        self._options = dict(options)

    def __reduce__(self) -> tuple[object, ...]:
        return (DynamoManifestStore, (self._table, self._options))

    @property
    def name(self) -> str:
        """See `ExternalManifestStore.name`."""
        return f"dynamodb://{self._table}"

    @property
    def server(self) -> Hashable:
        """See `ExternalManifestStore.server`."""
        return ("dynamodb", self._table, plain_options(self._options))

    def put_if_not_exists(self, base_uri: str, entry: ManifestEntry) -> None:
        """See `ExternalManifestStore.put_if_not_exists`."""
        try:
            self._put(base_uri, entry, "attribute_not_exists(base_uri) AND attribute_not_exists(version)")
        except _ConditionError:
            raise AlreadyExistsError(
                f"version {entry.version} of {base_uri!r} has a row", path=self.name
            ) from None

    def put_if_exists(self, base_uri: str, entry: ManifestEntry) -> bool:
        """See `ExternalManifestStore.put_if_exists`."""
        try:
            self._put(base_uri, entry, "attribute_exists(base_uri) AND attribute_exists(version)")
        except _ConditionError:
            return False
        return True

    def _put(self, base_uri: str, entry: ManifestEntry, condition: str) -> None:
        item = {
            **_key(base_uri, entry.version),
            "path": {"S": entry.path},
            "committer": {"S": _COMMITTER},
        }
        if entry.size is not None:
            item["size"] = {"N": str(entry.size)}
        self._ask(
            lambda client: client.put_item(TableName=self._table, Item=item, ConditionExpression=condition)
        )

    def get(self, base_uri: str, version: int) -> ManifestEntry | None:
        """See `ExternalManifestStore.get`."""
        answer = self._ask(
            lambda client: client.get_item(
                TableName=self._table, Key=_key(base_uri, version), ConsistentRead=True
            )
        )
        item = answer.get("Item")
        return self._entry(item) if item else None

    def get_latest(self, base_uri: str) -> ManifestEntry | None:
        """See `ExternalManifestStore.get_latest`."""
        items = self._query(base_uri, Limit=1)["Items"]
        return self._entry(items[0]) if items else None

    def entries(self, base_uri: str) -> Iterator[ManifestEntry]:
        """See `ExternalManifestStore.entries`."""
        after: dict[str, Any] = {}
        while True:
            answer = self._query(base_uri, **after)
            yield from map(self._entry, answer["Items"])
            if not answer.get("LastEvaluatedKey"):
                return
            after = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _query(self, base_uri: str, **more: Any) -> dict[str, Any]:
        return self._ask(
            lambda client: client.query(
                TableName=self._table,
                KeyConditionExpression="base_uri = :base AND version < :detached",
                ExpressionAttributeValues={":base": {"S": base_uri}, ":detached": {"N": str(DETACHED_BIT)}},
                ScanIndexForward=False,
                ConsistentRead=True,
                **more,
            )
        )

    def delete(self, base_uri: str, version: int, path: str) -> None:
        """See `ExternalManifestStore.delete`."""
        try:
            self._ask(
                lambda client: client.delete_item(
                    TableName=self._table,
                    Key=_key(base_uri, version),
                    ConditionExpression="#path = :path OR begins_with(#path, :staged)",
                    ExpressionAttributeNames={"#path": "path"},
                    ExpressionAttributeValues={":path": {"S": path}, ":staged": {"S": f"{path}-"}},
                )
            )
        except _ConditionError:
            return

    def _entry(self, item: Mapping[str, Mapping[str, str]]) -> ManifestEntry:
        try:
            version, path = int(item["version"]["N"]), item["path"]["S"]
            size = int(item["size"]["N"]) if "size" in item else None
        except (KeyError, ValueError) as error:
            raise CorruptManifestError(
                f"a row of the external manifest store has no valid {error}: expected version (N), path (S), "
                "size (N)",
                path=self.name,
            ) from None
        return ManifestEntry(version, path, size)

    def _ask(self, request: Callable[[Any], _T]) -> _T:
        exceptions = load_extra("botocore.exceptions")
        try:
            return request(_client(os.getpid(), tuple(sorted(self._options.items()))))
        except exceptions.ClientError as error:
            raise self._translate(error) from None
        except (exceptions.BotoCoreError, OSError, ValueError) as error:
            raise self._failed(error) from None

    def _translate(self, error: Any) -> Exception:
        code = error.response.get("Error", {}).get("Code", "")
        if code == "ConditionalCheckFailedException":
            return _ConditionError()
        reason = redact(str(error), self._options)
        if code == "ResourceNotFoundException":
            return StorageError(
                f"the table of DynamoDB does not exist: {reason}",
                path=self.name,
                field="ddbTableName",
                hint=_CREATE.format(self._table),
            )
        if code in _DENIED:
            return PermissionDeniedError(f"DynamoDB refused: {reason}", path=self.name)
        return self._failed(error)

    def _failed(self, error: Exception) -> LanceOpsError:
        return StorageError(
            f"DynamoDB failed: {redact(str(error) or type(error).__name__, self._options)}",
            path=self.name,
            hint="without it the newest version is unknown, so it is neither read nor written; check the "
            f"endpoint (storage option {_ENDPOINT}), region and credentials",
        )


class _ConditionError(Exception):
    """The condition of a write does not hold."""


def _key(base_uri: str, version: int) -> dict[str, dict[str, str]]:
    return {"base_uri": {"S": base_uri}, "version": {"N": str(version)}}


@functools.lru_cache(maxsize=16)
def _client(process: int, options: tuple[tuple[str, str], ...]) -> Any:
    """Return a client, one for each process: connections do not survive a fork."""
    del process
    found = {name.lower().removeprefix("aws_"): value for name, value in options}
    session = load_extra("boto3").session.Session(
        aws_access_key_id=found.get("access_key_id"),
        aws_secret_access_key=found.get("secret_access_key"),
        aws_session_token=found.get("session_token") or found.get("token"),
        region_name=found.get("region") or found.get("default_region"),
        profile_name=found.get("profile"),
    )
    return session.client(
        "dynamodb",
        endpoint_url=found.get(_ENDPOINT) or os.environ.get("DYNAMODB_ENDPOINT"),
        config=load_extra("botocore.config").Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"max_attempts": _ATTEMPTS, "mode": "standard"},
        ),
    )
