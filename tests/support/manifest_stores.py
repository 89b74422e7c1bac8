"""External manifest stores for tests: each kind, on real servers of this machine."""

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.object_servers import ObjectServer

TABLE = "versions"


def dynamo_client(server: ObjectServer) -> Any:
    """A client of the server's DynamoDB."""
    import boto3  # not for every test of the suite

    options = server.options()
    return boto3.client(
        "dynamodb",
        endpoint_url=server.endpoint,
        region_name=options["aws_region"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
    )


def create_table(client: Any, name: str) -> None:
    """Make a table with the keys that the official library asks for."""
    client.create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": "base_uri", "KeyType": "HASH"},
            {"AttributeName": "version", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "base_uri", "AttributeType": "S"},
            {"AttributeName": "version", "AttributeType": "N"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )


class DynamoPlace:
    """A server of S3 and DynamoDB, and a table."""

    def __init__(self, server: ObjectServer) -> None:
        self.server = server
        self.client = dynamo_client(server)
        create_table(self.client, TABLE)

    @property
    def options(self) -> dict[str, str]:
        """Storage options, ours and the official library's."""
        return {**self.server.options(), "dynamodb_endpoint": self.server.endpoint}

    def new_uri(self) -> str:
        """The URI of an empty place, as the official library spells it."""
        return f"{self.server.new_root().replace('s3://', 's3+ddb://')}?ddbTableName={TABLE}"

    def rows(self, uri: str) -> dict[int, str]:
        """Paths below the dataset, by version."""
        base = uri.partition("?")[0].partition("://")[2].partition("/")[2]
        found = self.client.query(
            TableName=TABLE,
            KeyConditionExpression="base_uri = :base",
            ExpressionAttributeValues={":base": {"S": base}},
        )["Items"]
        return {int(item["version"]["N"]): item["path"]["S"].removeprefix(f"{base}/") for item in found}


@pytest.fixture(scope="session")
def dynamo(moto: ObjectServer) -> DynamoPlace:
    """The tables of the run's moto."""
    return DynamoPlace(moto)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A fresh PostgreSQL for the whole run; left out where none is installed (in CI that is a failure)."""
    from tests.support.postgres import is_installed, postgres  # not for every test of the suite

    if not is_installed():
        pytest.skip("PostgreSQL is not installed")
    with (
        tempfile.TemporaryDirectory(prefix="lance-ops-", ignore_cleanup_errors=True) as folder,
        postgres(Path(folder) / "postgres") as url,
    ):
        yield url


POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@pytest.fixture(params=["memory", "sqlite", POSTGRES, "dynamodb"])
def manifest_options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Storage options with an external manifest store of each kind."""
    if request.param == "memory":
        return {"manifest_store": f"memory://{uuid.uuid4().hex}"}
    if request.param == "sqlite":
        return {"manifest_store": f"sqlite:///{tmp_path / 'manifests.db'}"}
    if request.param == "postgres":
        return {"manifest_store": request.getfixturevalue("postgres_url")}
    place: DynamoPlace = request.getfixturevalue("dynamo")
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_region", "dynamodb_endpoint")
    chosen = {name: place.options[name] for name in names}
    return {"manifest_store": f"dynamodb://{TABLE}", **chosen}
