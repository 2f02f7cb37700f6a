# shellcheck shell=bash
# What the run scripts share, to be sourced: where things are, what must be installed, the build.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/benches/peers/support"

need() { # command, what to do
  command -v "$1" >/dev/null || { echo "$1 is missing: $2" >&2; exit 1; }
}

chosen() { # option, default, the script's arguments: the value of the option
  local option="$1" value="$2"
  shift 2
  while [ $# -gt 0 ]; do
    case "$1" in
      "$option") value="${2-}" ;;
      "$option="*) value="${1#*=}" ;;
    esac
    shift
  done
  echo "$value"
}

among() { # name, list with commas: is the name in the list?
  [[ ",$2," == *",$1,"* ]]
}

# shellcheck disable=SC2034 # read by the script that sources this file
build() { # arguments of cargo build; the binaries are then in $built
  (cd "$root" && cargo build --profile dist "$@")
  target="$(cd "$root" && cargo metadata --format-version 1 --no-deps |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')"
  built="$target/dist"
}

# shellcheck disable=SC2034 # read by the script that sources this file
programs() { # takes TXGEN_BIN and SENTINEL_BIN, or builds both; sets $txgen, $sentinel and $target
  if [ -n "${TXGEN_BIN:-}" ] && [ -n "${SENTINEL_BIN:-}" ]; then
    target="$root/target"
  else
    need cargo "install Rust"
    build -p txgen --bin txgen -p sentinel --bin sentinel
  fi
  txgen="${TXGEN_BIN:-$built/txgen}"
  sentinel="${SENTINEL_BIN:-$built/sentinel}"
}
