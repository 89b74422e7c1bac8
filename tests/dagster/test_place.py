"""Commands in alerts and checks find the job from any folder, whatever its code location was loaded from."""

import os
import subprocess
import sys
from pathlib import Path
from shlex import split

import dagster as dg
import pytest

from lance_ops.dagster.place import CodePlace, asset_command, job_command

# These have no public names in Dagster.
_RUNS = sys.modules[dg.DagsterRun.__module__]
_ORIGINS = sys.modules[_RUNS.RemoteJobOrigin.__module__]
_TARGET = _ORIGINS.LoadableTargetOrigin


def place_of(location):
    repository = _ORIGINS.RemoteRepositoryOrigin(location, "__repository__")
    origin = _ORIGINS.RemoteJobOrigin(repository, "load")
    return CodePlace.of_run(dg.DagsterRun(job_name="load", remote_job_origin=origin))


def loaded(name=None, **target):
    return _ORIGINS.ManagedGrpcPythonEnvCodeLocationOrigin(_TARGET(**target), name)


@pytest.mark.parametrize(
    ("location", "for_jobs", "for_assets"),
    [
        (
            loaded(python_file="definitions.py", working_directory="/srv/my shop"),
            "-f '/srv/my shop/definitions.py' -d '/srv/my shop'",
            "-f '/srv/my shop/definitions.py' -d '/srv/my shop'",
        ),
        (
            loaded(module_name="shop.definitions", working_directory="/srv/shop"),
            "-m shop.definitions -d /srv/shop",
            "-m shop.definitions -d /srv/shop",
        ),
        (loaded(package_name="shop", attribute="defs"), "--package-name shop -a defs", None),
        (loaded(autoload_defs_module_name="shop.defs"), "--autoload-defs-module-name shop.defs", None),
        # Dagster looks for a backfill's location by its name, which a workspace file may choose.
        (loaded("shop", python_file="/srv/d.py"), "-l shop", "-f /srv/d.py"),
        (_ORIGINS.GrpcServerCodeLocationOrigin(host="shop", port=4000), "-l grpc:shop:4000", ""),
        # As `dagster dev` serves it.
        (
            _ORIGINS.GrpcServerCodeLocationOrigin(
                host="localhost",
                socket="/tmp/x",
                location_name="definitions.py",
                additional_metadata=_TARGET(
                    python_file="definitions.py", working_directory="/srv/shop"
                ).as_dict,
            ),
            "-f /srv/shop/definitions.py -d /srv/shop",
            None,
        ),
    ],
)
def test_a_command_has_the_options_that_find_the_code_location(location, for_jobs, for_assets):
    place = place_of(location)
    assert job_command(place, "load") == f"dagster job launch {for_jobs} -j load"
    chosen = f"dagster job backfill {for_jobs} -j load --partitions 'a,b c' --noprompt"
    assert job_command(place, "load", ["a", "b c"]) == chosen
    of_assets = for_jobs if for_assets is None else for_assets
    command = asset_command(place, [dg.AssetKey(["shop", "rows"])], "a...b")
    assert split(command) == split(
        f"dagster asset materialize {of_assets} --select shop/rows --partition-range a...b"
    )


def test_without_a_known_place_the_workspace_decides():
    assert job_command(None, "load", ["a"], "c") == "dagster job backfill -j load --from a --to c --noprompt"
    assert job_command(CodePlace("shop", "r"), "load") == "dagster job launch -j load"
    assert asset_command(None, [dg.AssetKey("rows")]) == "dagster asset materialize --select rows"


def test_how_a_location_is_found_makes_no_other_place_of_it():
    moved = [loaded("shop", python_file=file) for file in ("/old/d.py", "/new/d.py")]
    assert place_of(moved[0]) == place_of(moved[1]) == CodePlace("shop", "__repository__")


_DEFINITIONS = """
import dagster as dg
from letters import PARTITIONS

@dg.asset(partitions_def=dg.StaticPartitionsDefinition(PARTITIONS))
def rows(): ...

defs = dg.Definitions([rows], jobs=[dg.define_asset_job("load", [rows])])
"""


@pytest.mark.slow
def test_dagster_takes_the_command_in_any_folder(tmp_path, monkeypatch):
    shop, home, elsewhere = (tmp_path / name for name in ("shop", "home", "elsewhere"))
    for folder in (shop, home, elsewhere):
        folder.mkdir()
    (shop / "letters.py").write_text("PARTITIONS = ['a', 'b', 'c']")
    (shop / "definitions.py").write_text(_DEFINITIONS)
    place = place_of(loaded(python_file="definitions.py", working_directory=str(shop)))
    command = split(job_command(place, "load", ["a", "c"]))
    command[0] = str(Path(sys.executable).with_name("dagster"))
    subprocess.run(
        command,
        cwd=elsewhere,
        env={**os.environ, "DAGSTER_HOME": str(home)},
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    with dg.DagsterInstance.get() as instance:
        (backfill,) = instance.get_backfills()
    assert backfill.partition_names == ["a", "c"]
    assert (
        backfill.partition_set_origin.repository_origin.code_location_origin.location_name == place.location
    )
