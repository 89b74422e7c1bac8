"""Damaged files end in a typed error or in a valid table: no crash, no hang, no memory for mere claims."""

import pytest

from lance_ops.errors import CorruptFileError
from lance_ops.storage import open_store
from tests.fuzz.campaign import run_campaign
from tests.fuzz.check import Examiner, _open
from tests.fuzz.corpus import Sample, build_corpus

pytestmark = pytest.mark.peer

CASES = 5_000
"""What takes under ten seconds of two processes; `.ci/run` goes on from there with `make fuzz`."""


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return build_corpus()


def test_the_undamaged_files_are_read(samples: list[Sample]) -> None:
    Examiner(samples)
    assert {sample.version for sample in samples} == {"0.1", "2.0", "2.1", "2.2", "2.3"}


@pytest.mark.slow
def test_seeded_damage_ends_in_a_typed_error_or_a_valid_table() -> None:
    result = run_campaign(0, CASES, workers=2)
    assert not result.bugs, str(result)
    assert result.answers + result.errors == CASES
    # Both have to be reached, or the damage is too coarse or too fine to prove anything.
    assert min(result.answers, result.errors) > CASES // 8


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2", "2.3"])
def test_every_truncation_is_a_typed_error(samples: list[Sample], version: str) -> None:
    store = open_store("memory://truncations")
    own = sorted(
        (sample for sample in samples if sample.version == version), key=lambda sample: len(sample.data)
    )
    for sample in own[:: max(len(own) // 12, 1)][:12]:
        for length in range(len(sample.data)):
            with pytest.raises(CorruptFileError):
                _open(store, sample.data[:length]).read_table()
