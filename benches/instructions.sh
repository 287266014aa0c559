#!/usr/bin/env bash
# Counts the instructions of each case of the hot path with callgrind, and compares them with benches/instructions.txt:
#   benches/instructions.sh [case]     prints the counts; fails if one is too far above the baseline, or misses its target
#   benches/instructions.sh --ci       the same without the events of 6 MB, which take minutes
#   benches/instructions.sh --write    writes the baseline; then run benches/chart.py, which writes the tables that show it
# The argument chooses the cases whose name has it, such as key/path/raw. It needs valgrind (the Debian package has it).
#
# Counts do not depend on the load of the machine. They do depend on the compiler and the C library, which chooses its functions by
# the processor. So each count is divided by that of serde_json on an event of the same size in the same run, and this ratio is
# compared with the baseline's. What the reference does not see is left to the limit: 5 % if the baseline was made with this
# compiler, 8 % otherwise. Cases of few instructions may take 1,000 more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

command -v valgrind >/dev/null || { echo "instructions.sh: valgrind is not installed" >&2; exit 2; }
write='' selection=()
case ${1:-} in
    --write) write=yes ;;
    --ci) selection=(up-to-256KB) ;;
    *) selection=("${1:-}") ;;
esac
baseline=instructions.txt target=${CARGO_TARGET_DIR:-../target/benches} counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT

# Together with the other program that is counted: what both depend on is then compiled once.
cargo build --quiet --profile counted --locked --package idempotency-benches --package idempotency-bench-client --target-dir "$target"
program=$(realpath "$target/counted/instructions")
compiler=$(rustc --version)
# One dump for each run: counting is on inside `counted_case` alone, and leaving it ends a dump. With `rep movsb` each copied byte would be
# an instruction, and whether a text that grows is copied depends on the memory that earlier cases have left.
(cd "$counts" && GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1073741824 valgrind --tool=callgrind --collect-atstart=no --toggle-collect=instructions::counted_case \
    --dump-after=instructions::counted_case --callgrind-out-file=out "$program" run "${selection[@]}" >log 2>&1) ||
    { cat "$counts/log" >&2; exit 1; }

number=0
"$program" names "${selection[@]}" >"$counts/names"
while read -r name runs bytes; do
    least=''
    for ((run = 0; run < runs; run++)); do
        number=$((number + 1))
        total=$(awk '/^(totals|summary):/ { print $2; exit }' "$counts/out.$number")
        : "${total:?there is no count for $name}"
        if [[ -z $least ]] || ((total < least)); then least=$total; fi
    done
    printf '%s %s %s\n' "$name" "$least" "$bytes"
done <"$counts/names" >"$counts/now"

if [[ -n $write ]]; then
    {
        echo "# Instructions of each case, and the bytes of its event: benches/instructions.sh --write"
        echo "# $compiler"
        cat "$counts/now"
    } >"$baseline"
fi
awk -v now="$counts/now" -v compiler="# $compiler" '
    FNR == 1 { file++ }
    file == 1 && $0 == compiler { same = 1 }
    file == 1 && $1 != "#" { before[$1] = $2 }
    file == 2 { count[$1] = $2; bytes[$1] = $3; order[++cases] = $1 }
    # The size at the end of a name.
    function size(name) { sub(/.*\//, "", name); return name }
    # How much the same work of serde_json costs here, compared with the machine of the baseline.
    function scale(name,    reference) {
        reference = "reference/ignored_any/" size(name)
        if (!(reference in count) || !(reference in before)) reference = "reference/ignored_any/4KB"
        if (!(reference in count) || !(reference in before)) return 1
        return count[reference] / before[reference]
    }
    function fails(text) { failed++; print "FAILS: " text }
    # A count must be at most so many times another, if both were counted.
    function at_most(name, times, other) {
        if ((name in count) && (other in count) && count[name] > times * count[other])
            fails(sprintf("%s takes %d instructions, more than %.2f times the %d of %s", name, count[name], times, count[other], other))
    }
    END {
        limit = same ? 5 : 8
        for (at = 1; at <= cases; at++) {
            name = order[at]
            if (!(name in before)) { printf "%-36s %12d      new\n", name, count[name]; continue }
            expected = before[name] * scale(name)
            printf "%-36s %12d %+7.1f %%\n", name, count[name], 100 * (count[name] - expected) / expected
            if (count[name] > expected * (1 + limit / 100) + 1000)
                fails(sprintf("%s takes %.1f %% more than the baseline, of which %d %% are allowed", name, 100 * (count[name] - expected) / expected, limit))
        }
        # The targets. A text is read in the time of a check of its form, and a value in that of writing it.
        split("4KB 32KB 256KB 6MB", sizes, " ")
        for (at in sizes) {
            at_most("key/path/raw/" sizes[at], 1.5, "reference/ignored_any/" sizes[at])
            at_most("key/header/raw/" sizes[at], 1.5, "reference/ignored_any/" sizes[at])
        }
        for (at in sizes) at_most("key/path/typed/" sizes[at], 1, "reference/to_writer/" sizes[at])
        # 25 microseconds are about 2.5 times the time of the reference.
        split("value typed raw", forms, " ")
        for (at in forms) at_most("attribute/" forms[at] "/cached/4KB", 1.25, "reference/ignored_any/4KB")
        at_most("layer/typed/cached/4KB", 1.25, "reference/ignored_any/4KB")
        # Growth is linear: a larger event takes no more for each byte.
        for (at = 1; at <= cases; at++) {
            name = order[at]
            small = name
            if (sub(/\/(256KB|6MB)$/, "/32KB", small) + sub(/\/64KB$/, "/4KB", small) + sub(/\/10000$/, "/100", small) == 0 || !(small in count)) continue
            if (count[name] / bytes[name] > 1.2 * count[small] / bytes[small])
                fails(sprintf("%s takes %.1f instructions for each byte, and %s only %.1f", name, count[name] / bytes[name], small, count[small] / bytes[small]))
        }
        if (failed) exit 1
    }
' "$([[ -f $baseline ]] && echo "$baseline" || echo /dev/null)" "$counts/now"
