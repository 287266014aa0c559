#!/usr/bin/env bash
# Counts what a claim and a completion cost in the DynamoDB client: instructions by callgrind, and bytes sent.
#   benches/client/instructions.sh
# The HTTP client replies at once, so there is no server, no connection and no TLS in the counts. It needs valgrind, which has no
# SHA extensions: a hash takes several times as many instructions as on the processors of Lambda.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

command -v valgrind >/dev/null || { echo "instructions.sh: valgrind is not installed" >&2; exit 2; }
calls=10 target=${CARGO_TARGET_DIR:-../../target/benches-client} counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT

cargo build --quiet --release --locked --target-dir "$target"
program=$(realpath "$target/release/idempotency-bench-client")
for name in by-hand store lean; do
    valgrind --tool=callgrind --collect-atstart=no --toggle-collect=idempotency_bench_client::counted_calls \
        --callgrind-out-file="$counts/$name" "$program" "$name" "$calls" >"$counts/out" 2>"$counts/log" ||
        { cat "$counts/log" >&2; exit 1; }
    total=$(awk '/^(totals|summary):/ { print $2; exit }' "$counts/$name")
    printf '%s; %d instructions\n' "$(tail -1 "$counts/out")" "$((total / calls))"
done
