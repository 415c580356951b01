#!/bin/sh
# make_venv.sh DIR: a virtual environment with pip, from the first Python that can run the project.
# 3.11 comes first because the pinned CPU build of torch is made for it; numba has no build for 3.14 yet.
set -eu

target=$1
chosen=""
for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3 python}; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1; then
        chosen=$candidate
        break
    fi
done
if [ -z "$chosen" ]; then
    echo "make setup: no Python 3.11, 3.12 or 3.13 found (tried ${PYTHON:-python3.11 python3.12 python3.13 python3 python});" \
        "install one of them, or name it: make setup PYTHON=/path/to/python3.11" >&2
    exit 1
fi

rm -rf "$target"
if "$chosen" -c 'import ensurepip' >/dev/null 2>&1; then
    "$chosen" -m venv "$target"
elif "$chosen" -m pip --version >/dev/null 2>&1; then
    # Debian splits ensurepip into python3-venv; the system's pip can fill the environment instead.
    "$chosen" -m venv --without-pip "$target"
    "$chosen" -m pip --python "$target/bin/python" install --quiet pip || { rm -rf "$target"; exit 1; }
else
    echo "make setup: $chosen has neither ensurepip nor pip; install its venv package" \
        "(Debian: apt-get install python3-venv) and run make setup again" >&2
    exit 1
fi
echo "made $target with $("$target/bin/python" --version)"
