#!/bin/sh
# Finds a Python of version 3.11 or newer and lets it make or refresh .venv with the extras given.
# Plain sh and nothing beside it: this runs on machines that have Python and make only.
set -eu
cd "$(dirname "$0")/.."

# The environment's own interpreter comes first: it stays right when another Python appears on PATH.
for candidate in ${PYTHON:-} .venv/bin/python python3.13 python3.12 python3.11 python3 python; do
    # Running it is the only proof: version managers put names on PATH that only print an error.
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        exec "$candidate" tools/bootstrap.py "$@"
    fi
done
echo "lance_ops needs Python 3.11 or newer; none is on PATH. Install one, or name it: make <target> PYTHON=/path/to/python3" >&2
exit 1
