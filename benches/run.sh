#!/usr/bin/env bash
# Builds and measures whole functions: by hand, with this framework, and in other languages (benches/README.md).
#   benches/run.sh            builds all, measures all (about 20 minutes after the build), writes target/benches/whole.json, takes
#                             benches/results/whole.json from it, and draws the tables of the documents and the picture (chart.py)
#   benches/run.sh --quick    a few calls of each: shows that everything works, and proves nothing
#   benches/run.sh --check    checks format and code of everything, and tests the runner; measures nothing
# Other arguments go to the runner: `benches/run.sh --only typed,by-hand-typed --parts warm`. The tables of its results are then
# printed, and the results written only with `--output FILE`. `--only` also chooses what is built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# Where contestants.json expects the programs.
target=$(realpath -m ../target/benches)

# build <package> <profile> <argument of cargo ...>: alone, so that its features are not unified with those of another package.
build() {
    local package=$1 profile=$2
    shift 2
    CARGO_TARGET_DIR="$target/$package" cargo build --locked --package "$package" --profile "$profile" "$@"
}

if [[ ${1:-} == --check ]]; then
    # In the folder and with the profile of the other builds of this repository, so that what they have compiled is not compiled again.
    export CARGO_TARGET_DIR=../target CARGO_PROFILE_DEV_DEBUG=line-tables-only
    cargo fmt --all --check
    cargo check --locked --workspace --all-targets --all-features
    # Without the embedded DynamoDB, which the other tests cover and which takes long to compile.
    cargo test --locked --package whole --no-default-features
    exit
fi

only='' output=''
arguments=("$@")
while (($#)); do
    if [[ $1 == --only ]]; then only=${2:?--only needs names}; fi
    if [[ $1 == --output ]]; then output=${2:?--output needs a file}; fi
    shift
done

# programs <folder>: the programs of the chosen contestants in a folder.
programs() {
    python3 - "$1" "$only" <<'PYTHON'
import json, sys
folder, only = sys.argv[1], sys.argv[2].split(",") if sys.argv[2] else None
prefix = "{target}/" + folder + "/release/"
programs = {
    entry["command"][0].removeprefix(prefix)
    for entry in json.load(open("contestants.json"))
    if entry["command"][0].startswith(prefix) and (only is None or entry["name"] in only)
}
print(*sorted(programs))
PYTHON
}

# The program for HTTP is built by itself: its feature would be in every other program too.

for folder in by-hand functions; do
    plain=()
    for program in $(programs "$folder"); do
        if [[ $folder/$program == functions/http ]]; then
            build functions release --features http --bin http
        else
            plain+=(--bin "$program")
        fi
    done
    if ((${#plain[@]})); then build "$folder" release "${plain[@]}"; fi
done
build whole runner
if [[ -z $only || $only == *powertools* ]]; then peers/setup.sh; fi

if ((${#arguments[@]} == 0)); then
    "$target/whole/runner/whole" --output "$target/whole.json"
    ./chart.py --take "$target/whole.json"
else
    unnamed=$(mktemp)
    trap 'rm -f "$unnamed"' EXIT
    "$target/whole/runner/whole" --output "$unnamed" "${arguments[@]}"
    # Nothing was measured for `--help`.
    if [[ -s ${output:-$unnamed} ]]; then ./chart.py --print "${output:-$unnamed}"; fi
fi
