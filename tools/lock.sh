#!/usr/bin/env bash
# Writes requirements.lock and requirements-dev.lock anew from pyproject.toml: exact versions, hashes of every
# file of each version, no registry named. pip-tools lives in a throw-away environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

env_dir=$(mktemp -d)
trap 'rm -rf "$env_dir"' EXIT
"${PYTHON:-python3}" -m venv "$env_dir"
"$env_dir/bin/python" -m pip install --quiet --disable-pip-version-check pip-tools

# Without the machine's own pip settings: a lock must not depend on what lies on this machine's disk.
export PIP_CONFIG_FILE=/dev/null CUSTOM_COMPILE_COMMAND="make lock"
unset PIP_FIND_LINKS PIP_EXTRA_INDEX_URL
common=(--quiet --generate-hashes --strip-extras --allow-unsafe
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options)
"$env_dir/bin/pip-compile" "${common[@]}" "$@" -o requirements.lock pyproject.toml
"$env_dir/bin/pip-compile" "${common[@]}" "$@" --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml
