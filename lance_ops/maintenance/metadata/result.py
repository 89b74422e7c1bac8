"""Result of what changes metadata only: other settings, other columns, or those of an old version."""

from dataclasses import dataclass, field

from lance_ops.maintenance.results import OperationResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResult(OperationResult):
    """Result of `restore`, `update_config` and `drop_columns`.

    Attributes:
        operation: Its name.
        change: The commit in one line.
        dataset: The new version; the newest one if that of an earlier run of the job was removed.
    """

    operation: str
    change: str = ""
    dataset: Dataset = field(repr=False, compare=False)

    @property
    def transaction(self) -> Transaction:
        """Read the committed transaction.

        Raises:
            NotFoundError: It was not recorded, or its file is missing.
        """
        return self.dataset.read_transaction()

    def to_dict(self) -> dict[str, object]:
        """All fields but the dataset as JSON values."""
        values = OperationResult.to_dict(self)
        del values["dataset"]
        return values

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        return self.change
