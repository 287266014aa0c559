#!/usr/bin/env bash
# Runs the tests of the store on Valkey against real servers, which it installs into .tools/ of the checkout: Redis 6.2, the oldest
# that is supported, Redis 7 and Valkey 9. The tests start, kill and freeze servers by themselves, on free ports of the loopback interface.
#   tests/scripts/valkey.sh              all tests on each server
#   tests/scripts/valkey.sh conformance  the tests with this in their name
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() { echo "valkey.sh: $*" >&2; exit 1; }

source tests/scripts/valkey-servers.sh
# Compiled first, so that a compile error shows once. With the features of all tests of the workspace, which CI has compiled.
cargo test --workspace --features idempotency-tests/servers --test valkey --no-run
# The command.
cargo test --workspace --test cli --no-run
export IDEMPOTENCY_COMMAND=$PWD/target/debug/idempotency
# A loopback address must not go through a proxy.
export NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
# The folders of the servers are in here. One that is left belongs to a server that its test could not end.
scratch=$(mktemp -d)
export VALKEY_TLS=$scratch/tls
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
mkdir "$VALKEY_TLS"
# certificate <name> <argument of openssl ...>: makes a certificate and its key, by itself that of an authority. It needs openssl 3.
certificate() {
    local name=$1
    shift
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$name" "$@" \
        -keyout "$VALKEY_TLS/$name.key" -out "$VALKEY_TLS/$name.pem" 2>"$scratch/report" || { cat "$scratch/report" >&2; fail "openssl makes no certificate"; }
}
certificate authority
certificate other
certificate server -CA "$VALKEY_TLS/authority.pem" -CAkey "$VALKEY_TLS/authority.key" -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE
for server in "${servers[@]}"; do
    # The soak runs on the last one, unless it is asked for.
    skip=()
    if (($# == 0)) && [[ $server != "${servers[-1]}" ]]; then skip=(--skip soak::); fi
    version=$("$server" --version) || fail "$server does not start"
    echo "=== $version"
    TMPDIR=$scratch VALKEY_SERVER=$server cargo test --workspace --features idempotency-tests/servers --test valkey -- "${skip[@]}" "$@" 2>&1 | tee "$scratch/report"
    if grep -q ' 0 passed' "$scratch/report"; then fail "no test has \"$*\" in its name"; fi
done
