#!/usr/bin/env bash
# Counts the instructions of each case of the hot path with callgrind, and compares them with benches/instructions.txt:
#   benches/instructions.sh [case]           prints the counts; fails if one is more than 3 % above the baseline
#   benches/instructions.sh --write          writes the baseline
# The argument chooses the cases whose name has it, such as key/path/raw. It needs valgrind (the Debian package has it).
# Counts do not depend on the load of the machine. They do depend on the compiler and the processor's family.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

command -v valgrind >/dev/null || { echo "instructions.sh: valgrind is not installed" >&2; exit 2; }
write='' filter=''
if [[ ${1:-} == --write ]]; then write=yes; else filter=${1:-}; fi
baseline=instructions.txt target=${CARGO_TARGET_DIR:-../target/benches} counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT

cargo build --quiet --release --locked --bin instructions --target-dir "$target"
program=$(realpath "$target/release/instructions")
# One dump for each case: counting is on inside `counted_case` alone, and leaving it ends a dump.
(cd "$counts" && valgrind --tool=callgrind --collect-atstart=no --toggle-collect=instructions::counted_case \
    --dump-after=instructions::counted_case --callgrind-out-file=out "$program" run "$filter" >log 2>&1) ||
    { cat "$counts/log" >&2; exit 1; }

number=0
while IFS= read -r name; do
    number=$((number + 1))
    total=$(awk '/^(totals|summary):/ { print $2; exit }' "$counts/out.$number")
    printf '%s %s\n' "$name" "${total:?there is no count for $name}"
done < <("$program" names "$filter") >"$counts/now"

if [[ -n $write ]]; then
    { echo "# Instructions of one run of each case: benches/instructions.sh --write"; cat "$counts/now"; } >"$baseline"
fi
awk -v limit=3 -v now="$counts/now" '
    FILENAME != now { if ($1 != "#") before[$1] = $2; next }
    {
        change = ($1 in before) ? 100 * ($2 - before[$1]) / before[$1] : 0
        worse = change > limit
        if (worse) failed++
        printf "%-32s %12d %s%s\n", $1, $2, ($1 in before) ? sprintf("%+6.1f %%", change) : "   new", worse ? "  WORSE" : ""
    }
    END {
        if (failed) { printf "%d cases take more than %d %% more instructions than the baseline\n", failed, limit; exit 1 }
    }
' "$([[ -f $baseline ]] && echo "$baseline" || echo /dev/null)" "$counts/now"
