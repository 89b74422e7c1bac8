"""Import and exercise lance_ops.pb under every kind of protobuf runtime that the project allows.

    python tools/check_protobuf_runtimes.py            in throwaway environments, one per protobuf release
    python tools/check_protobuf_runtimes.py --here     in the running interpreter

Run it after `make protos` or a change of the protobuf range in pyproject.toml. It needs a package index.
"""

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from throwaway_environment import make_environment

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(path.stem for path in (ROOT / "lance_ops" / "pb").glob("*_pb2.py"))

# The oldest release we allow, the last of its line, 6.x and 7.x from their first lines to the newest release.
RELEASES = ("==5.29.1", "==5.29.*", "==6.30.*", "==6.31.*", "==6.32.*", "<7", "==7.34.*", "<8")
# The pure Python implementation is the fallback where no wheel fits the machine.
IMPLEMENTATIONS = ("upb", "python")

# Field 1000 with four bytes: something that only a future writer knows.
UNKNOWN = b"\xc2\x3e\x04\x00\xff\x10\x80"


def check_here() -> str:
    """Import every module, send a message through bytes and back; return what runtime that was.

    Raises:
        AssertionError: Something was lost.
        Exception: Whatever protobuf raises when it refuses the generated code.
    """
    modules = {name: importlib.import_module(f"lance_ops.pb.{name}") for name in MODULES}
    table_pb2, transaction_pb2 = modules["table_pb2"], modules["transaction_pb2"]

    fragment = table_pb2.DataFragment(id=3, physical_rows=10)
    fragment.files.add(path="a.lance", fields=[0, -2], column_indices=[0, 1], file_major_version=2)
    carried = table_pb2.DataFragment.FromString(fragment.SerializeToString() + UNKNOWN)

    manifest = table_pb2.Manifest(version=7, index_section=0, config={"lance.key": "value"})
    manifest.fields.add(id=0, parent_id=-1, name="a", logical_type="int64", nullable=True)
    manifest.fragments.append(carried)
    manifest.timestamp.FromSeconds(1_700_000_000)
    again = table_pb2.Manifest.FromString(manifest.SerializeToString() + UNKNOWN)
    again.version += 1
    data = again.SerializeToString()
    assert data.count(UNKNOWN) == 2, "unknown fields were lost"
    assert again.HasField("index_section"), "a position of 0 was lost"
    assert not again.HasField("transaction_section"), "a position appeared from nowhere"
    assert table_pb2.Manifest.FromString(data).fragments[0].files[0].fields == [0, -2]

    transaction = transaction_pb2.Transaction(read_version=7, uuid="u")
    transaction.append.fragments.append(fragment)
    details = table_pb2.IndexMetadata(name="i")
    details.index_details.Pack(table_pb2.BTreeIndexDetails(), type_url_prefix="")
    assert details.index_details.type_url == "/lance.table.BTreeIndexDetails"
    assert transaction_pb2.Transaction.FromString(transaction.SerializeToString()) == transaction
    assert transaction.WhichOneof("operation") == "append"

    protobuf = importlib.import_module("google.protobuf")
    implementation = importlib.import_module("google.protobuf.internal.api_implementation").Type()
    return f"protobuf {protobuf.__version__} ({implementation})"


def check_releases(folder: Path) -> int:
    """Run the check in an environment per release and implementation; return the number of failures."""
    failures = 0
    for release in RELEASES:
        name = "".join(character if character.isalnum() else "-" for character in release).strip("-")
        python = make_environment(folder / f"protobuf-{name}", [f"protobuf{release}"])
        for implementation in IMPLEMENTATIONS:
            variables = {
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation,
            }
            # A warning at every import is a failure too.
            command = [str(python), "-W", "error", __file__, "--here"]
            result = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
            if result.returncode:
                failures += 1
                print(f"protobuf {release} ({implementation}): FAILED\n{result.stderr}", file=sys.stderr)
            else:
                print(f"{result.stdout.strip()}: ok", flush=True)
    return failures


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Check lance_ops.pb under the protobuf runtimes we allow.")
    parser.add_argument("--here", action="store_true", help="check the running interpreter alone")
    if parser.parse_args().here:
        print(check_here())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return 1 if check_releases(Path(folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
