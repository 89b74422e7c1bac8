"""The long campaign of the fleet plane: its processes are killed at random while others write.

python -m tests.safety.fleet [--minutes N] [--datasets N] [--cuts N] [--partitions N] [--pause S] [--seed N]
    [--apart] [--postgres] [--keep FOLDER]
"""

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from tests.safety.fleet.campaign import Options, run_campaign
from tests.support.postgres import postgres


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="of killing")
    parser.add_argument("--datasets", type=int, default=20, help="of the fleet")
    parser.add_argument("--pause", type=float, default=5, help="mean seconds between two kills")
    parser.add_argument("--seed", type=int, default=1, help="of all that is random")
    parser.add_argument("--cuts", type=int, default=2, help="power cuts: all processes die at once")
    parser.add_argument("--partitions", type=int, default=24, help="of a backfill meanwhile")
    parser.add_argument("--apart", action="store_true", help="steps have processes of their own")
    parser.add_argument("--postgres", action="store_true", help="the instance is kept in PostgreSQL")
    parser.add_argument("--keep", type=Path, help="empty folder in which all is left")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        storage = None
        if given.postgres:
            url = stack.enter_context(postgres(folder / "postgres"))
            storage = f"{{postgres: {{postgres_url: '{url}'}}}}"
        options = Options(
            given.minutes * 60,
            given.datasets,
            given.pause,
            given.seed,
            storage,
            cuts=given.cuts,
            partitions=given.partitions,
            apart=given.apart,
            long=True,
        )
        outcome = run_campaign(folder, options)
    sys.stdout.write(f"{outcome}\n")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
