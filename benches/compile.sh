#!/usr/bin/env bash
# Measures first builds: the CPU time (user and system) of cargo and all that it starts, from an empty target folder.
#   benches/compile.sh   prints the times; fails if a limit is exceeded, or if docs/guide/start.md says another time
#
#   a template                       at most 0.90 times a function by hand, on the AWS SDK: what a new user builds first. A template has a
#                                    profile without debug information of dependencies, the function by hand has that of cargo
#   a function with the attribute    at most 1.00 times the same function by hand, both with the profile of cargo
#   the tests of a template          at most 1.05 times the template: they compile nothing that they do not use
#
# The builds are debug builds, with the versions of the Cargo.lock beside them. On a machine that does other work each takes more CPU
# time, by about the same factor: so only ratios are limited. One run differs from another by up to a tenth. So if the ratio of the
# attribute or of the tests is too high, both builds are measured once more, and the lower time of each counts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

root=$(realpath ..) scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# As a user builds it.
unset CARGO_INCREMENTAL CARGO_PROFILE_DEV_DEBUG CARGO_BUILD_TARGET_DIR RUSTFLAGS RUSTC_WRAPPER
export CARGO_TARGET_DIR=$scratch/target
TIMEFORMAT='%U %S'

# seconds <name> <argument of cargo ...>: builds from nothing, and puts the seconds of CPU time into the variable, unless it has fewer.
seconds() {
    local -n result=$1
    shift
    rm -rf "$CARGO_TARGET_DIR"
    { time cargo "$@" --quiet --offline 2>"$scratch/log"; } 2>"$scratch/time" || { cat "$scratch/log" >&2; exit 1; }
    result=$(awk -v before="$result" '{ now = $1 + $2; printf "%.1f", before != "" && before < now ? before : now }' "$scratch/time")
    awk -v what="$*" '{ printf "%7.1f s   cargo %s\n", $1 + $2, what }' "$scratch/time"
}

# at_most <limit> <seconds> <seconds> <what>: the first may be so many times the second.
failed=''
at_most() {
    awk -v limit="$1" -v first="$2" -v second="$3" -v what="$4" 'BEGIN {
        printf "%7.2f     %s, of %.2f allowed\n", first / second, what, limit
        exit first > limit * second
    }' || failed=yes
}

# The project that `cargo lambda init` makes, in a folder outside of the checkout.
cp -r "$root/templates/event/template" "$scratch/charge"
cp "$root/Cargo.lock" "$scratch/charge"
sed -i "/^{%/d; s|{% if .*{% endif %}||; s|{{ checkout }}|$root|; s|{{ project_name }}|charge|" "$scratch"/charge/{Cargo.toml,src/main.rs}
cargo fetch --quiet --locked
(cd "$scratch/charge" && cargo fetch --quiet)

by_hand='' ours='' template='' tests=''
for _ in first again; do
    seconds by_hand build --package by-hand --bin typed
    seconds ours build --package functions --bin typed
    ! awk "BEGIN { exit $ours > $by_hand }" || break
done
cd "$scratch/charge"
for _ in first again; do
    seconds template build
    seconds tests test --no-run
    ! awk "BEGIN { exit $tests > 1.05 * $template }" || break
done

at_most 0.90 "$template" "$by_hand" "the template, by a function by hand"
at_most 1.00 "$ours" "$by_hand" "a function with the attribute, by the same function by hand"
at_most 1.05 "$tests" "$template" "the tests of the template, by the template"

# Two cores need about half of the CPU time.
said=$(sed -nE 's/.*first build.* ([0-9]+) seconds on two idle cores.*/\1/p' "$root/docs/guide/start.md")
[[ -n $said ]] || { echo "FAILS: docs/guide/start.md does not say how many seconds the first build takes"; exit 1; }
awk -v said="$said" -v tests="$tests" 'BEGIN {
    printf "%7.0f s   on two cores; docs/guide/start.md says %d s\n", tests / 2, said
    exit tests / 2 > 2 * said || tests / 2 < said / 2
}' || failed=yes

if [[ -n $failed ]]; then echo "FAILS: see above"; exit 1; fi
