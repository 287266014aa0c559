#!/usr/bin/env bash
# Runs fuzz targets, all of them if none is named, each for a limited time: FUZZ_SECONDS=20 tests/scripts/fuzz.sh [target ...]
# It installs a nightly compiler and cargo-fuzz if they are missing. The script fails if a target finds something; the input
# is kept under fuzz/artifacts/<target>. The corpus stays in fuzz/corpus for the next run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

seconds=${FUZZ_SECONDS:-20}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || { echo "fuzz.sh: FUZZ_SECONDS=$seconds is not a number of seconds" >&2; exit 2; }

cargo +nightly --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
export PATH="$PWD/.tools/bin:$PATH"
cargo +nightly fuzz --version >/dev/null 2>&1 ||
    cargo install cargo-fuzz --locked --version 0.13.2 --root .tools

targets=("$@")
((${#targets[@]} > 0)) || mapfile -t targets < <(cargo +nightly fuzz list)
((${#targets[@]} > 0)) || { echo "fuzz.sh: there are no targets" >&2; exit 1; }

found=()
for target in "${targets[@]}"; do
    echo "== $target: $seconds s"
    # New inputs are kept in the first folder.
    inputs=("fuzz/corpus/$target") options=()
    mkdir -p "${inputs[0]}"
    [[ ! -d fuzz/seeds/$target ]] || inputs+=("fuzz/seeds/$target")
    [[ $target != event_to_key && $target != canonical_json ]] || inputs+=(examples/events)
    [[ ! -f fuzz/dictionaries/$target.dict ]] || options=("-dict=fuzz/dictionaries/$target.dict")
    # One input may take 10 s and 1 GiB; more counts as a hang or unbounded memory. Inputs may grow early, as time is short.
    cargo +nightly fuzz run "$target" "${inputs[@]}" -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
        -max_len=65536 -print_final_stats=1 -len_control=10 "${options[@]}" || found+=("$target")
done
((${#found[@]} == 0)) || { echo "fuzz.sh: found something: ${found[*]}" >&2; exit 1; }
echo "== nothing found in $seconds s each: ${targets[*]}"
