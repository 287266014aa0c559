#!/usr/bin/env bash
# Builds and measures whole functions: by hand, with this framework, and in other languages (benches/README.md).
#   benches/run.sh            builds all, measures all (about 20 minutes after the build), writes benches/results/whole.json, and
#                             draws the tables of the documents and the picture from it (chart.py)
#   benches/run.sh --quick    a few calls of each: shows that everything works, and proves nothing
#   benches/run.sh --check    compiles everything without building it; measures nothing
# Other arguments go to the runner: `benches/run.sh --only typed,by-hand-typed --parts warm`. Results are then written only with
# `--output FILE`. `--only` also chooses what is built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# Where contestants.json expects the programs.
target=$(realpath -m ../target/benches)

# crate <folder> <argument of cargo ...>: each folder is a workspace of its own.
crate() {
    local folder=$1 command=$2
    shift 2
    CARGO_TARGET_DIR="$target/$folder" cargo "$command" --locked --manifest-path "$folder/Cargo.toml" "$@"
}

if [[ ${1:-} == --check ]]; then
    crate by-hand check --all-targets
    crate functions check --all-targets --features http
    crate whole check --all-targets
    crate client check --all-targets
    exit
fi

only=''
arguments=("$@")
while (($#)); do
    if [[ $1 == --only ]]; then only=${2:?--only needs names}; fi
    shift
done

# bins <folder>: the `--bin` arguments for the chosen contestants of a folder.
bins() {
    python3 - "$1" "$only" <<'PYTHON'
import json, sys
folder, only = sys.argv[1], sys.argv[2].split(",") if sys.argv[2] else None
prefix = "{target}/" + folder + "/release/"
programs = {
    entry["command"][0].removeprefix(prefix)
    for entry in json.load(open("contestants.json"))
    if entry["command"][0].startswith(prefix) and (only is None or entry["name"] in only)
}
print(" ".join("--bin " + program for program in sorted(programs)))
PYTHON
}

for folder in by-hand functions; do
    read -ra chosen <<<"$(bins "$folder")"
    if ((${#chosen[@]})); then
        if [[ $folder == functions && " ${chosen[*]} " == *' http '* ]]; then
            # Built by itself: the feature would be in every other program too.
            crate "$folder" build --release --features http --bin http
            kept=()
            for ((index = 0; index < ${#chosen[@]}; index += 2)); do
                if [[ ${chosen[index + 1]} != http ]]; then kept+=("${chosen[@]:index:2}"); fi
            done
            chosen=("${kept[@]}")
        fi
        if ((${#chosen[@]})); then crate "$folder" build --release "${chosen[@]}"; fi
    fi
done
crate whole build --release
if [[ -z $only || $only == *powertools* ]]; then peers/setup.sh; fi

if ((${#arguments[@]} == 0)); then
    mkdir -p results
    "$target/whole/release/whole" --output results/whole.json
    ./chart.py
else
    "$target/whole/release/whole" "${arguments[@]}"
fi
