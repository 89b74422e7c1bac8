"""Hook: opens the store of a connection."""

import json
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook

from lance_ops.airflow.provider import CONNECTION_TYPE
from lance_ops.errors import InvalidArgumentError, LanceOpsError
from lance_ops.maintenance.health.measure import DatasetHealth, measure_health
from lance_ops.storage import open_store
from lance_ops.storage.paths import is_address
from lance_ops.table.dataset import Dataset


class LanceHook(BaseHook):  # type: ignore[misc]  # Airflow is no dependency of the type check
    """A folder or an object store with datasets.

    The connection's `extra` is JSON: `root`, the folder or URI of the datasets, and `storage_options` as for
    `lance_ops.dataset`. Its password, if set, is the option `aws_secret_access_key`, or the one named by
    `password_option` in `extra`.

    Args:
        lance_conn_id: The connection; None for absolute paths and URIs with credentials of the environment.
    """

    conn_name_attr = "lance_conn_id"
    default_conn_name = "lance_default"
    conn_type = CONNECTION_TYPE
    hook_name = "Lance"

    def __init__(self, lance_conn_id: str | None = None) -> None:
        super().__init__()
        self.lance_conn_id = lance_conn_id
        self._read: tuple[str, dict[str, str]] | None = None

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return the fields of the connection form."""
        example = {"root": "s3://bucket/lake", "storage_options": {"aws_region": "eu-central-1"}}
        return {
            "hidden_fields": ["host", "schema", "port"],
            "relabeling": {"login": "Access key id", "password": "Secret access key"},
            "placeholders": {"extra": json.dumps(example)},
        }

    def get_conn(self) -> tuple[str, dict[str, str]]:
        """Return the root, "" without one, and the storage options.

        Raises:
            InvalidArgumentError: The connection is of another type, or its `extra` is invalid.
        """
        if self._read is None:
            self._read = ("", {}) if self.lance_conn_id is None else self._of_connection(self.lance_conn_id)
        return self._read

    def _of_connection(self, name: str) -> tuple[str, dict[str, str]]:
        connection = self.get_connection(name)
        extra = connection.extra_dejson
        options = extra.get("storage_options", {})
        root = extra.get("root", "")
        if not isinstance(options, dict) or not isinstance(root, str):
            raise InvalidArgumentError(
                f"the extra of connection {name!r} is invalid",
                field="extra",
                hint='{"root": "s3://bucket/lake", "storage_options": {...}}',
            )
        found = {str(key): str(value) for key, value in options.items()}
        if connection.login:
            found.setdefault("aws_access_key_id", connection.login)
        if connection.password:
            found.setdefault(extra.get("password_option", "aws_secret_access_key"), connection.password)
        return root, found

    def uri(self, dataset: str) -> str:
        """Return the URI of a dataset: below the root, unless it is a URI or an absolute path itself."""
        root, _ = self.get_conn()
        if is_address(dataset) or dataset.startswith("/") or not root:
            return dataset
        return f"{root.rstrip('/')}/{dataset}"

    @property
    def storage_options(self) -> dict[str, str]:
        """Return the options of the store."""
        return self.get_conn()[1]

    def dataset(self, dataset: str, version: int | str | None = None) -> Dataset:
        """Open a dataset at a version or tag; at its newest version by default.

        Raises:
            DatasetNotFoundError: There is none.
        """
        return Dataset.open(self.uri(dataset), version, self.storage_options)

    def health(self, dataset: str) -> DatasetHealth:
        """Measure the health of a dataset."""
        return measure_health(self.dataset(dataset))

    def test_connection(self) -> tuple[bool, str]:
        """Test whether there is something at the root; for the button of the form."""
        try:
            root, options = self.get_conn()
            if not root:
                return False, "the extra has no root"
            if not is_address(root) and Path(root).is_dir():
                return True, f"{root} is a folder"
            store = open_store(root, options)
            if not store.list_dirs("") and next(iter(store.list("")), None) is None:
                return False, f"there is nothing at {root}: check its name; the first write makes it"
        except LanceOpsError as error:
            return False, str(error)
        return True, f"there are files at {root}"
