"""External manifest store in a database of SQLAlchemy: SQLite as an embedded file, PostgreSQL as a server.

The table `lance_manifests` is made at the first use: `base_uri` and `version` are its primary key, which
decides races; `path`, `size` and `committer` as in DynamoDB.
"""

import functools
import os
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

from lance_ops.errors import AlreadyExistsError, InvalidArgumentError, StorageError
from lance_ops.extras import load_extra
from lance_ops.storage.external.manifest_store import ManifestEntry
from lance_ops.storage.options import redact
from lance_ops.storage.paths import is_address

_T = TypeVar("_T")
TABLE = "lance_manifests"
_COMMITTER = "lance-ops"
_LONGEST_BASE = 700
# Seconds that a writer waits for the others of a SQLite file, and for a server to answer at all.
_BUSY_SECONDS, _CONNECT_SECONDS = 60, 10


class SqlManifestStore:
    """Rows of a table in a database.

    Args:
        url: Of SQLAlchemy, which may hold a password: it is never shown.
    """

    def __init__(self, url: str) -> None:
        self._url = _checked(url)

    def __reduce__(self) -> tuple[object, ...]:
        return (SqlManifestStore, (self._url,))

    @property
    def name(self) -> str:
        """See `ExternalManifestStore.name`: kind, host and database."""
        url = _parse(self._url)
        place = f"{url.host or ''}{f':{url.port}' if url.port else ''}/{url.database or ''}"
        return f"{url.get_backend_name()}://{place}"

    @property
    def server(self) -> Hashable:
        """See `ExternalManifestStore.server`."""
        return ("sql", self.name)

    def put_if_not_exists(self, base_uri: str, entry: ManifestEntry) -> None:
        """See `ExternalManifestStore.put_if_not_exists`."""
        if len(base_uri) > _LONGEST_BASE:
            raise InvalidArgumentError(
                f"the URI of the dataset has {len(base_uri)} characters, at most {_LONGEST_BASE} are a key",
                path=base_uri,
                field="uri",
            )
        row = {
            "base_uri": base_uri,
            "version": entry.version,
            "path": entry.path,
            "size": entry.size,
            "committer": _COMMITTER,
        }
        try:
            self._run(lambda link, table: link.execute(table.insert().values(row)))
        except _TakenError:
            raise AlreadyExistsError(
                f"version {entry.version} of {base_uri!r} has a row", path=self.name
            ) from None

    def put_if_exists(self, base_uri: str, entry: ManifestEntry) -> bool:
        """See `ExternalManifestStore.put_if_exists`."""
        row = {"path": entry.path, "size": entry.size, "committer": _COMMITTER}

        def update(link: Any, table: Any) -> bool:
            where = (table.c.base_uri == base_uri) & (table.c.version == entry.version)
            return bool(link.execute(table.update().where(where).values(row)).rowcount)

        return self._run(update)

    def get(self, base_uri: str, version: int) -> ManifestEntry | None:
        """See `ExternalManifestStore.get`."""

        def select(link: Any, table: Any) -> ManifestEntry | None:
            where = (table.c.base_uri == base_uri) & (table.c.version == version)
            row = link.execute(table.select().where(where)).first()
            return None if row is None else ManifestEntry(row.version, row.path, row.size)

        return self._run(select)

    def get_latest(self, base_uri: str) -> ManifestEntry | None:
        """See `ExternalManifestStore.get_latest`."""
        return next(self._select(base_uri, 1), None)

    def entries(self, base_uri: str) -> Iterator[ManifestEntry]:
        """See `ExternalManifestStore.entries`."""
        return self._select(base_uri, None)

    def _select(self, base_uri: str, limit: int | None) -> Iterator[ManifestEntry]:
        def select(link: Any, table: Any) -> list[ManifestEntry]:
            found = table.select().where(table.c.base_uri == base_uri).order_by(table.c.version.desc())
            rows = link.execute(found.limit(limit))
            return [ManifestEntry(row.version, row.path, row.size) for row in rows]

        return iter(self._run(select))

    def delete(self, base_uri: str, version: int, path: str) -> None:
        """See `ExternalManifestStore.delete`."""

        def remove(link: Any, table: Any) -> None:
            is_path = (table.c.path == path) | table.c.path.startswith(f"{path}-", autoescape=True)
            where = (table.c.base_uri == base_uri) & (table.c.version == version) & is_path
            link.execute(table.delete().where(where))

        self._run(remove)

    def _run(self, work: Callable[[Any, Any], _T]) -> _T:
        """Run one statement in a transaction of its own."""
        errors = load_extra("sqlalchemy.exc")
        try:
            try:
                return self._try(work)
            except (errors.OperationalError, errors.ProgrammingError):
                # Made when this process first asked, and lost since, with all rows: then readers say so.
                engine, table = _connect(os.getpid(), self._url)
                if load_extra("sqlalchemy").inspect(engine).has_table(TABLE):
                    raise
                table.create(engine, checkfirst=True)
                return self._try(work)
        except errors.IntegrityError:
            raise _TakenError from None
        except (errors.SQLAlchemyError, OSError) as error:
            # The text of the cause may hold secrets that the translated one does not.
            reason = redact(str(getattr(error, "orig", None) or error), {"manifest_store": self._url})
            raise StorageError(
                f"the database failed: {reason}",
                path=self.name,
                hint="without it the newest version is unknown, so it is neither read nor written; check the "
                "storage option manifest_store",
            ) from None

    def _try(self, work: Callable[[Any, Any], _T]) -> _T:
        engine, table = _connect(os.getpid(), self._url)
        with engine.begin() as link:
            return work(link, table)


class _TakenError(Exception):
    """The primary key exists."""


def _checked(url: str) -> str:
    """Return a URL; a file of SQLite must be the same for all working directories."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        place = parsed.database or ""
        if not place.startswith(("/", "file:/")) or is_address(place):
            raise InvalidArgumentError(
                "a file of SQLite needs an absolute path, or each process would have another database",
                field="manifest_store",
                hint="write sqlite:////absolute/path/manifests.db, with four slashes",
            )
    return url


@functools.lru_cache(maxsize=64)
def _parse(url: str) -> Any:
    errors = load_extra("sqlalchemy.exc")
    try:
        parsed = load_extra("sqlalchemy").make_url(url)
        # Loads no driver.
        parsed.get_dialect()
    except (errors.ArgumentError, errors.NoSuchModuleError, ValueError):
        raise InvalidArgumentError(
            "this is no URL of a database; it may hold a password, and is not repeated here",
            field="manifest_store",
            hint="such as postgresql+psycopg2://user:password@host/database",
        ) from None
    return parsed


@functools.lru_cache(maxsize=16)
def _connect(process: int, url: str) -> tuple[Any, Any]:
    """Return engine and table, one for each process: connections do not survive a fork."""
    del process
    sql = load_extra("sqlalchemy")
    kind = _parse(url).get_backend_name()
    limits = {"sqlite": {"timeout": _BUSY_SECONDS}, "postgresql": {"connect_timeout": _CONNECT_SECONDS}}
    try:
        # A connection that is kept would go on with a file that was removed or replaced.
        pool = {"poolclass": sql.NullPool} if kind == "sqlite" else {"pool_pre_ping": True}
        engine = sql.create_engine(url, connect_args=limits.get(kind, {}), **pool)
    except ImportError as error:
        raise InvalidArgumentError(
            f"the driver of the database is not installed: {error.name}",
            field="manifest_store",
            hint=f"pip install {error.name}",
        ) from None
    table = sql.Table(
        TABLE,
        sql.MetaData(),
        sql.Column("base_uri", sql.String(_LONGEST_BASE), primary_key=True),
        sql.Column("version", sql.BigInteger, primary_key=True, autoincrement=False),
        sql.Column("path", sql.Text, nullable=False),
        sql.Column("size", sql.BigInteger),
        sql.Column("committer", sql.Text),
    )
    errors = load_extra("sqlalchemy.exc")
    try:
        table.create(engine, checkfirst=True)
    except (errors.ProgrammingError, errors.IntegrityError, errors.OperationalError):
        # Another process has made it meanwhile.
        if not sql.inspect(engine).has_table(TABLE):
            raise
    return engine, table
