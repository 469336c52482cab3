#!/usr/bin/env bash
# Runs every check: lint, types, tests. --fast leaves out the tests that are marked slow. Other arguments go to pytest.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install '[test]'

tests=()
if [ "${1:-}" = --fast ]; then
    shift
    tests=(-m "not slow")
fi
.venv/bin/ruff check --quiet --config scripts/ruff.toml mindspore_dataprep.py dataprep trainer schemas tests benchmarks
.venv/bin/mypy --no-error-summary &
types=$!
# Most tests wait for one process or another. A file stays whole: its tests may share what they have made.
code=0
.venv/bin/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder "${tests[@]}" "$@" || code=$?
wait "$types" || code=$?
exit "$code"
