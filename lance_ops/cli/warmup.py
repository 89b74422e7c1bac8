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
    the others came from the library or the cache. error: Why they cannot be used, or None.
    """

    technique: str
    seconds: float
    compiled: int
    error: str | None = None


@click.command("warmup", short_help="Compile the inner loops of encodings once per machine.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def warmup_command(as_json: bool) -> None:
    """Compile the inner loops of encodings, so that no process has to.

    A wheel for Linux x86-64 has a library of them and needs no warm-up. In a checkout with numba and a C
    compiler, the library is built (beside the package, or in the user's cache). Elsewhere numba compiles the
    loops one by one and keeps them on disk (in $NUMBA_CACHE_DIR, beside the package, or in the user's
    cache). Exit code 1: some loops cannot be used, or there is nothing to compile them with.
    """
    from lance_ops.encoding import kernels
    from lance_ops.encoding.kernel_cache import LOGGER

    started = time.perf_counter()
    warmed = []
    log = logging.getLogger(LOGGER)
    # This command does what the notice advises.
    before, log.disabled = log.disabled, True
    try:
        note = _build_library()
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
                    "library": kernels.has_library(),
                    "note": note,
                    "seconds": round(seconds, 3),
                    "techniques": [asdict(one) for one in warmed],
                }
            )
        )
    elif not warmed:
        click.echo("no compiled loops: pip install 'lance-ops[compiler]', and run this again")
    else:
        compiled = sum(one.compiled for one in warmed)
        kept = "library" if kernels.has_library() else f"cache of numba, {compiled} loops newly compiled"
        click.echo(f"compiled loops: {len(warmed)} techniques in {seconds:.1f} s, from the {kept}")
        if note:
            click.echo(f"no loop library was built: {note}")
    if not warmed or any(one.error for one in warmed):
        sys.exit(1)


def _build_library() -> str | None:
    """Build the loop library where there is none of these sources; return why that was not possible."""
    from lance_ops.encoding import kernels
    from lance_ops.encoding.kernels import loops
    from lance_ops.encoding.library.build import BuildError, build_library, writable_path

    if not kernels.available() or kernels.has_library():
        return None
    try:
        build_library(kernels.names(), writable_path())
    except (BuildError, OSError) as error:
        return str(error)
    loops.forget_library()
    return None


def _warm(name: str) -> Warmed:
    from lance_ops.encoding import kernels

    started = time.perf_counter()
    try:
        module = kernels.load(name)
    except Exception as error:  # noqa: BLE001 - compilers fail in many ways, and all of them are reported
        return Warmed(name, round(time.perf_counter() - started, 3), 0, f"{type(error).__name__}: {error}")
    loops = [value for value in vars(module).values() if getattr(value, "is_loop", None) is True]
    compiled = sum(sum(loop.stats.cache_misses.values()) for loop in loops)
    return Warmed(name, round(time.perf_counter() - started, 3), compiled)


def _show(warmed: Warmed) -> None:
    what = warmed.error or f"{warmed.compiled} compiled"
    click.echo(f"  {warmed.technique:<26} {warmed.seconds:6.1f} s  {what}")
