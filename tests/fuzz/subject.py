"""What a campaign damages: data files, or indices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class CaseRunner(Protocol):
    """Makes damage by number, and looks what comes of it."""

    def run(self, case: int) -> str:
        """ "answer" or "error"; anything raised is a bug."""
        ...

    def describe(self, case: int) -> tuple[str, bytes]:
        """What is damaged in a case, and the damaged bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Subject:
    """What is damaged.

    Attributes:
        build: Makes undamaged samples, which can be pickled.
        examiner: Takes them.
    """

    build: Callable[[], Sequence[Any]]
    examiner: Callable[[Sequence[Any]], CaseRunner]


def _files() -> Subject:
    from tests.fuzz.check import Examiner
    from tests.fuzz.corpus import build_corpus

    return Subject(build_corpus, Examiner)


def _indices() -> Subject:
    from tests.fuzz.index_check import IndexExaminer
    from tests.fuzz.index_corpus import build_index_corpus

    return Subject(build_index_corpus, IndexExaminer)


SUBJECTS: dict[str, Callable[[], Subject]] = {"files": _files, "indices": _indices}
"""Each imports what it needs only when it is asked for."""
