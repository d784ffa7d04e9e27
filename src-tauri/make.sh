#!/bin/bash
# The work behind the Makefile: looks for what is needed, installs what it may, builds, and does what was asked.
# On a machine that has everything, looking takes well under a second.
set -euo pipefail
cd "$(dirname "$0")/.."

RUST=1.91
NODE=20
TAURI_DRIVER=2
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Whether version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Debian and Ubuntu packages: what a build needs, and what the tests of the window need too.
BUILD="build-essential pkg-config curl ca-certificates libwebkit2gtk-4.1-dev librsvg2-dev libayatana-appindicator3-dev libxdo-dev"
TEST="webkit2gtk-driver xvfb dbus-x11 git"

packages() {
  [ "$(uname -s)" = Linux ] || return 0
  if ! command -v dpkg-query >/dev/null; then
    pkg-config --exists webkit2gtk-4.1 2>/dev/null ||
      die "The development files of WebKitGTK 4.1 are missing. Install your distribution's packages that match: $1"
    return 0
  fi
  local missing="" package
  for package in $1; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  local root=""
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || die "Packages are missing. Install them with:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing"
    root="sudo -n"
  fi
  say "Installing:$missing"
  $root apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive $root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

rust() {
  if ! command -v cargo >/dev/null && [ -x "$HOME/.cargo/bin/cargo" ]; then PATH="$HOME/.cargo/bin:$PATH"; fi
  command -v cargo >/dev/null || die "Rust $RUST or newer is missing. Install it from https://rustup.rs:
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
  local version
  version="$(rustc --version | cut -d ' ' -f 2)"
  at_least "$version" "$RUST" || die "Rust $version is too old, $RUST or newer is needed. Update it with: rustup update stable"
}

node_modules() {
  command -v node >/dev/null || die "Node.js $NODE or newer is missing. Install it from https://nodejs.org, or with your
version manager: nvm install $NODE"
  local version
  version="$(node --version)"
  at_least "${version#v}" "$NODE" || die "Node.js $version is too old, $NODE or newer is needed: https://nodejs.org"
  command -v npm >/dev/null || die "npm is missing. It comes with Node.js from https://nodejs.org."
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

tauri_driver() {
  [ "$(uname -s)" = Linux ] || return 0
  if ! .cache/bin/tauri-driver --help >/dev/null 2>&1; then
    say "Building tauri-driver, once"
    CARGO_TARGET_DIR="$PWD/.cache/build" cargo install --quiet --locked --root .cache --version "^$TAURI_DRIVER" tauri-driver
    rm -rf .cache/build
  fi
}

build() { packages "$BUILD"; rust; page; }

case "${1:-}" in
  run)
    build
    cargo build --quiet
    if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || [ "$(uname -s)" != Linux ]; then
      exec "$CARGO_TARGET_DIR/debug/coppice"
    fi
    say "There is no display, so this is the tour in the terminal."
    exec "$CARGO_TARGET_DIR/debug/coppice" run --model rehearsal --mode full "Look at this folder"
    ;;
  test)
    packages "$BUILD $TEST"; rust; page; tauri_driver
    (cd ui && npm test --silent)
    # The engine's tests need no window; the shell's drive the real program, so it is built first.
    cargo test --workspace
    ;;
  check)
    build
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    (cd ui && npm run --silent check)
    ;;
  bench)
    packages "$BUILD $TEST"; rust; page; tauri_driver
    cargo bench --quiet --bench bench -- "${@:2}"
    ;;
  package)
    build
    packages "file xdg-utils"
    # The page is built already.
    npx --yes "@tauri-apps/cli@2" build "${@:2}"
    ;;
  *)
    die "make run · make test · make check · make bench · make package"
    ;;
esac
