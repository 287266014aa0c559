#!/usr/bin/env bash
# Runs each fuzz target for a bounded time: tests/scripts/fuzz.sh [seconds], 60 if left out.
# It needs a nightly compiler and cargo-fuzz; without them it says so and tests nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${1:-60}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz.sh: $seconds is no number of seconds" >&2; exit 2; }

not_run() {
    echo "##################################################" >&2
    echo "FUZZING NOT RUN: $*" >&2
    echo "##################################################" >&2
    exit 0
}

cargo +nightly --version >/dev/null 2>&1 || not_run "install a nightly compiler: rustup toolchain install nightly"
cargo +nightly fuzz --version >/dev/null 2>&1 || not_run "install cargo-fuzz: cargo install cargo-fuzz"

for target in event_to_key canonical_json expression; do
    echo "== $target: $seconds s"
    # A single input may take 10 s and 1 GiB; more is a hang or unbounded memory.
    cargo +nightly fuzz run "$target" -- \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1
done
