"""Open stores of a policy: one client for each, and the datasets below them."""

from dataclasses import dataclass, field
from posixpath import join

from lance_ops.fleet.policy.model import FleetPolicy, StoreSpec
from lance_ops.fleet.policy.overlaps import resolved
from lance_ops.fleet.stores.metered import MeteredStore, Rate, meter
from lance_ops.storage import Store, open_store

_REMOTE_THREADS, _LOCAL_THREADS = 64, 8


@dataclass(frozen=True, slots=True, order=True)
class FleetDataset:
    """A dataset of a fleet.

    Attributes:
        name: Path below the root of its store; with several stores, after the name of the store.
        store: Name of the store.
        path: Path below the root of the store; "" for the root itself.
        uri: URI of the dataset.
    """

    name: str
    store: str
    path: str
    uri: str


@dataclass(slots=True)
class FleetStores:
    """The stores of a policy, each opened on first use.

    Attributes:
        policy: The policy.
    """

    policy: FleetPolicy
    _opened: dict[str, MeteredStore] = field(default_factory=dict)

    def use(self, name: str, store: Store) -> None:
        """Use an open store for one of the policy."""
        self._opened[name] = meter(store)

    def root(self, name: str) -> MeteredStore:
        """Return the root of a store.

        Raises:
            InvalidArgumentError: An environment variable is not set, or its options are invalid.
        """
        if name not in self._opened:
            spec = self.policy.store(name)
            rates = (self.policy.budget_of(name).requests_per_second, self.policy.budget.requests_per_second)
            known = [rate for rate in rates if rate]
            opened = open_store(spec.root, spec.storage_options())
            self._opened[name] = meter(opened, Rate(min(known, default=None)))
        return self._opened[name]

    def dataset(self, store: str, path: str) -> FleetDataset:
        """Return the dataset at a path of a store."""
        name = path if len(self.policy.stores) == 1 else f"{store}/{path}".rstrip("/")
        root = self.root(store).uri
        return FleetDataset(name or root.rpartition("/")[2], store, path, join(root, path) if path else root)

    def ledger_below(self, name: str) -> str | None:
        """Return the path of the ledger below the root of a store; None if it is elsewhere."""
        root, ledger = resolved(self.policy.store(name).root), resolved(self.policy.ledger_uri)
        return ledger.removeprefix(f"{root}/") if ledger.startswith(f"{root}/") else None

    def open(self, dataset: FleetDataset) -> MeteredStore:
        """Open the store at the root of a dataset, with its own request count."""
        child = self.root(dataset.store).child(dataset.path) if dataset.path else self.root(dataset.store)
        assert isinstance(child, MeteredStore)
        return child

    @property
    def threads(self) -> int:
        """Return the number of useful concurrent requests: large for a store behind a network.

        The threads wait and do not compute, so the number depends on the store, not on the cores of this
        machine.
        """
        return _REMOTE_THREADS if any(map(self._is_remote, self.policy.stores)) else _LOCAL_THREADS

    def _is_remote(self, spec: StoreSpec) -> bool:
        opened = self._opened.get(spec.name)
        return "://" in (spec.root if opened is None else opened.uri)
