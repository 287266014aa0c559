#!/usr/bin/env bash
# Changes one place of the code at a time (a "mutant"), and checks that a test fails:
#
#     tests/scripts/mutants.sh [protocol|engine|key ...]
#
# protocol: every decision. engine: the driver, the store, the cache, the operation. key: from a payload to a key. Without a name:
# all three.
# Each mutant is first tried with the unit tests of idempotency-core, which takes some seconds. A mutant that they miss is tried
# with the tests of idempotency-tests that run whole calls, which takes about a minute. A mutant that both miss is listed, and
# the script fails. Mutants that change nothing are excluded by name in .cargo/mutants.toml.
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

# mutants <options ...>: this function succeeds if a mutant is missed (2) or hangs (3).
mutants() {
    local status=0
    cargo mutants --package idempotency-core --jobs "${MUTANTS_JOBS:-1}" --no-shuffle "$@" || status=$?
    ((status == 0 || status == 2 || status == 3))
}

# The tests of idempotency-tests that exercise core.
whole=(--test in_lambda --test lambda)

parts=("$@")
((${#parts[@]} > 0)) || parts=(protocol engine key)
missed=()
for part in "${parts[@]}"; do
    case $part in
    protocol) files=(--file "$core/protocol/**") ;;
    engine) files=(--file "$core/engine/**" --file "$core/store/**" --file "$core/cache.rs" --file "$core/operation/**") ;;
    key) files=(--file "$core/key/**") ;;
    *)
        echo "mutants.sh: \`$part\` is not one of protocol, engine, key" >&2
        exit 2
        ;;
    esac
    echo "== $part: the unit tests"
    mutants "${files[@]}" --output "$output/$part" -- --lib
    list="$output/$part/mutants.out/missed.txt"
    if [[ -s $list ]]; then
        echo "== $part: the mutants that the unit tests miss, with the tests of whole calls"
        # The exact names as one regular expression.
        names=$(sed -E 's/[^A-Za-z0-9_ \/:-]/\\&/g; s/^/^/; s/$/$/' "$list" | paste -sd'|')
        mutants --re "$names" --output "$output/$part-whole" --test-package idempotency-tests -- "${whole[@]}" -- --skip properties
        mapfile -t -O "${#missed[@]}" missed <"$output/$part-whole/mutants.out/missed.txt"
    fi
done
if ((${#missed[@]} > 0)); then
    printf 'mutants.sh: no test fails:\n' >&2
    printf '  %s\n' "${missed[@]}" >&2
    exit 1
fi
echo "== each mutant of ${parts[*]} makes a test fail"
