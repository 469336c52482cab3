# Sourced by the other scripts: finds a Python, makes .venv and installs this package with the extras in $1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "Error: $*" >&2
    exit 1
}

find_python() {
    local name
    for name in "${PYTHON:-}" python3.11 python3.12 python3.10 python3 python; do
        if [ -n "$name" ] && "$name" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    fail "Python 3.10, 3.11 or 3.12 is needed, MindSpore has no package for others; found $(python3 --version 2>&1 || true)." \
        "Install one and name it: PYTHON=/path/to/python3.11 bash scripts/$(basename "$0")"
}

install() {
    local sum stamp
    # A stamp for each set of extras holds what it was installed from, so that a rerun installs only after a change.
    sum="$(cat setup.cfg pyproject.toml | cksum)"
    stamp=".venv/installed$1"
    # Any set of extras has what none of them needs: nothing is installed anew while another job uses it.
    if grep -qsxF "$sum" "$stamp" || { [ -z "$1" ] && grep -qsxF "$sum" .venv/installed*; }; then
        return
    fi
    if ! .venv/bin/python -c '' 2>/dev/null; then
        local python
        python="$(find_python)"
        "$python" -m venv --clear .venv || fail "'$python -m venv .venv' failed; on Debian install python3-venv"
    fi
    echo "installing into .venv (MindSpore is some 500 MB, so the first time takes minutes)" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".$1" || fail "pip could not install the package"
    echo "$sum" > "$stamp"
}
