"""`python -m lance_ops`: the `lance-ops` command."""

from lance_ops.cli.main import main

if __name__ == "__main__":
    main(prog_name="lance-ops")
