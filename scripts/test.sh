#!/usr/bin/env bash
# Runs every check: lint, types, tests. Arguments go to pytest.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install '[test]'

.venv/bin/ruff check --quiet --config scripts/ruff.toml dataprep trainer schemas tests benchmarks
.venv/bin/mypy --no-error-summary
.venv/bin/python -m pytest -q "$@"
