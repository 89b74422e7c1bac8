"""The `lance-ops` command."""

from lance_ops.cli.main import main as main
