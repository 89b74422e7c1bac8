"""`lance-ops warmup`: compile the inner loops of encodings in advance."""

import json
import logging
import sys
import time
from dataclasses import asdict, dataclass

import click


@dataclass(frozen=True, slots=True)
class Warmed:
    """One technique.

    Attributes: technique: Its name. seconds: Until its loops were ready. compiled: Number of loops compiled;
    the others came from the cache. error: Why they cannot be used, or None.
    """

    technique: str
    seconds: float
    compiled: int
    error: str | None = None


@click.command("warmup", short_help="Compile the inner loops of encodings once per machine.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def warmup_command(as_json: bool) -> None:
    """Compile the inner loops of encodings, so that no process has to.

    They are stored on disk (in $NUMBA_CACHE_DIR, beside the package, or in the user's cache, the first that
    is writable) and loaded from there within a second. Without numba, plain numpy is used. Exit code 1: numba
    is installed, but some loops cannot be used.
    """
    from lance_ops.encoding import kernels
    from lance_ops.encoding.kernel_cache import LOGGER

    started = time.perf_counter()
    warmed = []
    log = logging.getLogger(LOGGER)
    # This command does what the notice advises.
    before, log.disabled = log.disabled, True
    try:
        for name in kernels.names() if kernels.available() else ():
            warmed.append(_warm(name))
            if not as_json and (warmed[-1].compiled or warmed[-1].error):
                _show(warmed[-1])
    finally:
        log.disabled = before
    seconds = time.perf_counter() - started
    if as_json:
        click.echo(
            json.dumps(
                {
                    "operation": "warmup",
                    "kernels": kernels.available(),
                    "seconds": round(seconds, 3),
                    "techniques": [asdict(one) for one in warmed],
                }
            )
        )
    elif not warmed:
        click.echo(f"no compiled loops, numpy is used: numba is missing or off ({kernels.SWITCH})")
    else:
        compiled = sum(one.compiled for one in warmed)
        click.echo(
            f"compiled loops: {len(warmed)} techniques in {seconds:.1f} s, {compiled} loops newly compiled"
        )
    if any(one.error for one in warmed):
        sys.exit(1)


def _warm(name: str) -> Warmed:
    from lance_ops.encoding import kernels

    started = time.perf_counter()
    try:
        module = kernels.load(name)
    except Exception as error:  # noqa: BLE001 - compilers fail in many ways, and all of them are told
        return Warmed(name, round(time.perf_counter() - started, 3), 0, f"{type(error).__name__}: {error}")
    loops = [value for value in vars(module).values() if hasattr(value, "stats")]
    compiled = sum(sum(loop.stats.cache_misses.values()) for loop in loops)
    return Warmed(name, round(time.perf_counter() - started, 3), compiled)


def _show(warmed: Warmed) -> None:
    what = warmed.error or f"{warmed.compiled} compiled"
    click.echo(f"  {warmed.technique:<26} {warmed.seconds:6.1f} s  {what}")
