#!/usr/bin/env bash
# Counts what a call costs in the DynamoDB client: instructions and allocations by callgrind, and bytes sent.
#   benches/client/instructions.sh            prints the counts; fails if one is too far above benches/client/costs.txt
#   benches/client/instructions.sh --write    writes that file
#   benches/client/instructions.sh --large    prints those of large responses, as they are and compressed (minutes; no limits)
# The HTTP client replies at once, so there is no server, no connection and no TLS in the counts. It needs valgrind, which has no
# SHA extensions: a hash takes several times as many instructions as on the processors of Lambda.
#
# Allocations are the calls of malloc, calloc and realloc. They depend on nothing but the code and the versions of Cargo.lock, so
# they may grow by 1 % only. Instructions depend on the compiler and the C library too. What by hand takes shows how much, so
# only the ratio to it is limited: by 3 %.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

command -v valgrind >/dev/null || { echo "instructions.sh: valgrind is not installed" >&2; exit 2; }
target=${CARGO_TARGET_DIR:-../../target/benches} counts=$(mktemp -d) baseline=costs.txt
trap 'rm -rf "$counts"' EXIT

# Together with the other program that is counted: what both depend on is then compiled once.
cargo build --quiet --profile counted --locked --package idempotency-benches --package idempotency-bench-client --target-dir "$target"
program=$(realpath "$target/counted/idempotency-bench-client")

# run <case> <contestant> <calls>: prints the instructions of these calls, the allocations of the whole program, and the bytes sent of
# one call. Callgrind counts instructions inside one function, and how often a function is called everywhere.
run() {
    local counted=idempotency_bench_client::counted_calls
    rm -f "$counts"/out*
    valgrind --tool=callgrind --collect-atstart=no --toggle-collect=$counted --dump-after=$counted \
        --callgrind-out-file="$counts/out" "$program" "$1" "$2" "$3" >"$counts/sent" 2>"$counts/log" ||
        { cat "$counts/log" >&2; exit 1; }
    awk -v sent="$(tail -1 "$counts/sent")" '
        /^(totals|summary):/ { total = $2 }
        # The name of a function is written once, and its number afterwards: fn=(12) malloc, cfn=(12).
        /^c?fn=/ {
            number = $1; sub(/^c?fn=/, "", number)
            if (NF > 1) names[number] = $2
            called = names[number]
        }
        /^calls=/ && called ~ /^(malloc|calloc|realloc)$/ { sub(/^calls=/, "", $1); allocations += $1 }
        END { print total, allocations, sent }
    ' "$counts/out.1"
}

# count <case> <contestant> <calls>: prints both names, and the instructions, allocations and bytes sent of one call.
count() {
    local few many
    read -ra few <<<"$(run "$1" "$2" "$3")"
    read -ra many <<<"$(run "$1" "$2" $((2 * $3)))"
    echo "$1 $2 $((many[0] / (2 * $3))) $(((many[1] - few[1]) / $3)) ${many[2]}"
}

if [[ ${1:-} == --large ]]; then
    echo "# case, contestant, instructions, allocations, bytes sent"
    for size in 16KB 17KB 64KB 256KB 1MB 6MB; do
        for form in plain compressed; do
            count "stored/$size/$form" lean 1
            count "replayed/$size/$form" lean 1
        done
    done
    exit
fi

for case in fresh duplicate; do
    for name in by-hand store lean engine engine-lean; do
        count "$case" "$name" 10
    done
done >"$counts/now"

if [[ ${1:-} == --write ]]; then
    {
        echo "# Case, contestant, instructions, allocations, bytes sent of one call: benches/client/instructions.sh --write"
        echo "# $(rustc --version)"
        cat "$counts/now"
    } >"$baseline"
fi
awk -v now_file="$counts/now" '
    $1 == "#" { next }
    FILENAME != now_file { before[$1 " " $2] = $3; allocated[$1 " " $2] = $4; next }
    {
        name = $1 " " $2; by_hand = $1 " by-hand"
        now[name] = $3
        ratio = now[name] / now[by_hand]
        printf "%-10s %-14s %8d instructions (%.2f x by hand) %5d allocations %5d bytes sent\n", $1, $2, $3, ratio, $4, $5
        if (!(name in before)) next
        if (ratio > 1.03 * before[name] / before[by_hand]) {
            failed = 1
            printf "FAILS: it took %d instructions, %.2f x by hand\n", before[name], before[name] / before[by_hand]
        }
        if ($4 > 1.01 * allocated[name]) {
            failed = 1
            printf "FAILS: it made %d allocations\n", allocated[name]
        }
    }
    END { exit failed }
' "$([[ -f $baseline ]] && echo "$baseline" || echo /dev/null)" "$counts/now"
