"""How much the random tests try: a little usually, much more with `SIMULATE=20 pytest tests/safety`."""

import os

from hypothesis import HealthCheck, Phase, settings

FACTOR = int(os.environ.get("SIMULATE", "0"))
"""How many times more examples than usual, and new ones in every run; 0 for the usual ones."""

SIMULATING = FACTOR > 0


def examples(usual: int, **options: object) -> settings:
    """Settings for a test that usually tries so many examples."""
    return settings(
        max_examples=usual * max(1, FACTOR),
        derandomize=not SIMULATING,
        print_blob=SIMULATING,
        deadline=None,
        database=None,
        phases=[phase for phase in Phase if phase is not Phase.explain],
        suppress_health_check=list(HealthCheck),
        **options,
    )
