#!/usr/bin/env bash
# Makes the virtual environment from a lock file and sees to it that Java is there.
# Runs before every `make run` and `make test`; once everything is in place it takes a moment and no network.
#   tools/setup.sh          what Spillway runs with (requirements.lock)
#   tools/setup.sh dev      what its tests and tools need, too (requirements-dev.lock, which has all of the other)
#   tools/setup.sh test     and Chromium
#   tools/setup.sh java     only looks at Java
#   PYTHON=python3.12   which Python to build the environment with (>= 3.11)
#   JAVA_HOME=…         which Java Spark uses (>= 17); otherwise `java` from PATH
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON_MIN="3.11"
JAVA_MIN=17
JAVA_PACKAGE=openjdk-17-jre-headless
RUN_LOCK=requirements.lock
DEV_LOCK=requirements-dev.lock
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

stamp_of() { # a lock's content, and the interpreter
  "$VENV/bin/python" - "$1" <<'PY'
import hashlib, pathlib, sys
lock = hashlib.sha256(pathlib.Path(sys.argv[1]).read_bytes()).hexdigest()
print(lock, sys.version.split()[0])
PY
}

spark_version() { "$VENV/bin/python" -c 'from importlib.metadata import version; print(version("pyspark"))' 2>/dev/null || true; }

install_python_packages() {
  if ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
    local python
    python=$(find_python)
    say "making $VENV with $python"
    "$python" -m venv --clear "$VENV" 2>/dev/null ||
      die "$python -m venv failed; on Debian and Ubuntu: apt-get install python3-venv"
  fi
  # The stamp says which lock's packages are there. The developers' lock has all of the runtime's.
  local lock=$1 wanted spark
  wanted=$(stamp_of "$lock")
  if [ -f "$STAMP" ] && grep -qxF "$wanted" "$STAMP"; then return; fi
  if [ "$lock" = "$RUN_LOCK" ] && [ -f "$STAMP" ] && grep -qxF "$(stamp_of "$DEV_LOCK")" "$STAMP"; then return; fi
  spark=$(spark_version)
  say "installing the packages of $lock that are missing (exact versions, hashes checked); the first time takes a few minutes"
  "$VENV/bin/python" -m pip install -qq --disable-pip-version-check --no-input \
    --require-hashes -r "$lock" ||
    die "pip could not install $lock (see above); nothing is half-done: run make setup again once the cause is gone"
  if [ "$spark" != "$(spark_version)" ]; then rm -f "$CLASSES" "$VENV/spark-classes.log"; fi
  echo "$wanted" >"$STAMP.tmp" && mv "$STAMP.tmp" "$STAMP"
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

main() {
  local lock=$RUN_LOCK
  case "${1:-}" in
    java) check_java; return ;;
    dev | test) lock=$DEV_LOCK ;;
    "") ;;
    *) die "no such part: $1; known: dev, test, java, or nothing" ;;
  esac
  [ -f "$RUN_LOCK" ] && [ -f "$DEV_LOCK" ] || die "$lock is missing: is this a whole clone?"
  if command -v flock >/dev/null 2>&1; then # two makes at once must not install into one environment
    exec 9>".setup.lock"
    flock 9
  fi
  install_python_packages "$lock"
  check_java
  archive_classes
  if [ "${1:-}" = test ]; then check_chromium; fi
}

main "$@"
