#!/usr/bin/env bash
# Makes the virtual environment from the lock file and sees to it that Java is there.
# Runs before every `make run` and `make test`; once everything is in place it takes a moment and no network.
#   PYTHON=python3.12   which Python to build the environment with (>= 3.11)
#   JAVA_HOME=…         which Java Spark uses (>= 17); otherwise `java` from PATH
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON_MIN="3.11"
JAVA_MIN=17
JAVA_PACKAGE=openjdk-17-jre-headless
LOCK=requirements-dev.lock
VENV=.venv
STAMP=$VENV/.spillway-setup
CLASSES=$VENV/spark-classes.jsa

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# --- Python -----------------------------------------------------------------

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c "import sys; sys.exit(sys.version_info < tuple(map(int, '$PYTHON_MIN'.split('.'))))" 2>/dev/null
    then
      command -v "$candidate"
      return
    fi
  done
  die "needs Python >= $PYTHON_MIN; found $(${PYTHON:-python3} --version 2>&1 || true). Install one, or name it: make setup PYTHON=/path/to/python3.12"
}

wanted_stamp() { # what the environment was made from: the lock's content and the interpreter
  "$VENV/bin/python" - "$LOCK" <<'PY'
import hashlib, pathlib, sys
lock = hashlib.sha256(pathlib.Path(sys.argv[1]).read_bytes()).hexdigest()
print(lock, sys.version.split()[0])
PY
}

install_python_packages() {
  if ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
    local python
    python=$(find_python)
    say "making $VENV with $python"
    "$python" -m venv --clear "$VENV" 2>/dev/null ||
      die "$python -m venv failed; on Debian and Ubuntu: apt-get install python3-venv"
  fi
  if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(wanted_stamp)" ]; then return; fi
  say "installing the packages of $LOCK (exact versions, hashes checked); the first time takes a few minutes"
  "$VENV/bin/python" -m pip install -qq --disable-pip-version-check --no-input \
    --require-hashes -r "$LOCK" ||
    die "pip could not install $LOCK (see above); nothing is half-done: run make setup again once the cause is gone"
  rm -f "$CLASSES" "$VENV/spark-classes.log"
  wanted_stamp >"$STAMP.tmp" && mv "$STAMP.tmp" "$STAMP"
  say "packages installed"
}

# --- Java -------------------------------------------------------------------

java_command() { if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME/bin/java"; else echo java; fi; }

java_major() { # 17 for 'openjdk version "17.0.15"', 8 for '"1.8.0_392"', nothing without Java
  local version
  version=$("$(java_command)" -version 2>&1 | sed -n 's/.* version "\([0-9][0-9.]*\).*/\1/p' | head -n 1) || true
  version=${version#1.}
  echo "${version%%.*}"
}

java_is_fine() { local major; major=$(java_major); [ -n "$major" ] && [ "$major" -ge "$JAVA_MIN" ]; }

check_java() {
  if java_is_fine; then return; fi
  local found advice
  found=$(java_major)
  found=${found:+Java $found}
  found="found ${found:-none} (looked at $(java_command))"
  advice="Debian/Ubuntu: apt-get install $JAVA_PACKAGE; Fedora: dnf install java-17-openjdk-headless; macOS: brew install openjdk@17; or set JAVA_HOME to one"
  if [ -n "${JAVA_HOME:-}" ]; then
    die "Spark needs Java >= $JAVA_MIN; $found. JAVA_HOME=$JAVA_HOME decides: point it at a newer Java or unset it. $advice"
  fi
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    die "Spark needs Java >= $JAVA_MIN; $found. $advice"
  fi
  say "Spark needs Java >= $JAVA_MIN; $found: installing $JAVA_PACKAGE"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$JAVA_PACKAGE"; } >&2 ||
    die "apt-get could not install $JAVA_PACKAGE. $advice"
  java_is_fine || die "$JAVA_PACKAGE is installed, yet $found: is an older java first on PATH? $advice"
}

# --- Spark's classes: with them in one file its JVM starts sooner (docs/decisions/0019) ----

archive_classes() {
  local log="$VENV/spark-classes.log"
  if [ -f "$CLASSES" ] || [ -f "$log" ]; then return; fi # a machine that could not make it is not asked again
  say "writing down which classes Spark loads, so that it starts faster (half a minute, once)"
  if "$VENV/bin/python" -m engine.class_archive >"$log" 2>&1 </dev/null; then rm -f "$log"; return; fi
  say "that did not work; Spark starts as usual, only slower (see $log)"
}

# --- Chromium: for the browser tests only -------------------------------------

chromium_command() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

check_chromium() {
  if chromium_command >/dev/null; then return; fi
  local advice="Debian: apt-get install chromium; or run the tests without them: make test ARGS='-m \"not long and not bench and not browser\"'"
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    die "the browser tests need Chromium; found none. $advice"
  fi
  say "the browser tests need Chromium; found none: installing it"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >&2 ||
    die "apt-get could not install chromium. $advice"
}

# `tools/setup.sh java` only looks at Java; `tools/setup.sh test` sees to what the tests need, too.
main() {
  if [ "${1:-}" = java ]; then check_java; return; fi
  [ -f "$LOCK" ] || die "$LOCK is missing: is this a whole clone?"
  if command -v flock >/dev/null 2>&1; then # two makes at once must not install into one environment
    exec 9>".setup.lock"
    flock 9
  fi
  install_python_packages
  check_java
  archive_classes
  if [ "${1:-}" = test ]; then check_chromium; fi
}

main "$@"
