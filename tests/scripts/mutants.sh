#!/usr/bin/env bash
# Changes one place of the code at a time (a "mutant"), and checks that a test fails:
#
#     tests/scripts/mutants.sh [protocol|engine|key|http|dynamodb|lean|lambda ...]
#
# protocol: every decision. engine: the driver, the store, the cache, the operation. key: from a payload to a key. http, dynamodb,
# lean and lambda: the crates idempotency-http, idempotency-dynamodb, dynamodb-lean-client and idempotency-lambda. Without a name: all.
# Each mutant is first tried with the tests of its own crate (of core the unit tests), which takes some seconds. A mutant
# that they miss is tried with the tests of another crate, which takes about a minute: for core, http and lambda those that run whole
# calls, for dynamodb those with an embedded database or in processes, for lean those that compare both clients. A mutant that both miss is
# listed, and the script fails. MUTANTS_FILE limits a part to the files of a pattern. Mutants that change nothing are excluded by name in .cargo/mutants.toml.
# MUTANTS_JOBS=2 tries two mutants at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

MUTANTS_VERSION=27.1.0
export PATH="$PWD/.tools/bin:$PATH"
[[ "$(cargo mutants --version 2>/dev/null || true)" == "cargo-mutants $MUTANTS_VERSION" ]] ||
    cargo install cargo-mutants --locked --version "$MUTANTS_VERSION" --root .tools

# The builds are used once.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0 RUST_BACKTRACE=0
core=idempotency-core/src
output=target/mutants
mkdir -p "$output"

# mutants <package> <options ...>: this function succeeds if a mutant is missed (2) or hangs (3).
mutants() {
    local status=0 package=$1
    shift
    cargo mutants --package "$package" --jobs "${MUTANTS_JOBS:-1}" --no-shuffle "$@" || status=$?
    ((status == 0 || status == 2 || status == 3))
}

# The tests of another package that a mutant must pass too: those that run whole calls.
whole=(idempotency-tests -- --test in_lambda --test lambda -- --skip properties)

parts=("$@")
((${#parts[@]} > 0)) || parts=(protocol engine key http dynamodb lean lambda)
missed=()
for part in "${parts[@]}"; do
    package=idempotency-core own=(--lib) others=("${whole[@]}")
    case $part in
    protocol) files=(--file "$core/protocol/**") ;;
    engine) files=(--file "$core/engine/**" --file "$core/store/**" --file "$core/cache.rs" --file "$core/operation/**") ;;
    key) files=(--file "$core/key/**") ;;
    http) package=idempotency-http own=() ;;
    dynamodb)
        package=idempotency-dynamodb own=(--lib --test clients --features profiles)
        others=(idempotency-tests -- --test dynamodb --test functions)
        ;;
    lean) package=dynamodb-lean-client others=(idempotency-dynamodb -- --test clients) ;;
    lambda)
        package=idempotency-lambda own=(--lib --test own_store --features batch,http,metrics)
        others=(idempotency-tests -- --test functions --test in_lambda --test lambda -- --skip properties)
        ;;
    *)
        echo "mutants.sh: \`$part\` is not one of protocol, engine, key, http, dynamodb, lean, lambda" >&2
        exit 2
        ;;
    esac
    [[ $package == idempotency-core ]] || files=(--file "${MUTANTS_FILE:-$package/src/**}")
    echo "== $part: the tests of $package"
    mutants "$package" "${files[@]}" --output "$output/$part" -- "${own[@]}"
    list="$output/$part/mutants.out/missed.txt"
    if [[ -s $list ]]; then
        echo "== $part: the mutants that they miss, with the tests of ${others[0]}"
        # The exact names as one regular expression.
        names=$(sed -E 's/[^A-Za-z0-9_ \/:-]/\\&/g; s/^/^/; s/$/$/' "$list" | paste -sd'|')
        mutants "$package" --re "$names" --output "$output/$part-whole" --test-package "${others[@]}"
        mapfile -t -O "${#missed[@]}" missed <"$output/$part-whole/mutants.out/missed.txt"
    fi
done
if ((${#missed[@]} > 0)); then
    printf 'mutants.sh: no test fails:\n' >&2
    printf '  %s\n' "${missed[@]}" >&2
    exit 1
fi
echo "== each mutant of ${parts[*]} makes a test fail"
