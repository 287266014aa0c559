#!/usr/bin/env bash
# Compares the public surface of each published library with the text that is committed in tests/public-api/.
#
#     tests/scripts/public-api.sh          # fails, and shows the difference
#     tests/scripts/public-api.sh --write  # writes the texts anew: read the difference in `git diff`
#
# A line that goes or changes breaks a user's program: after the first release it needs a line in the crate's CHANGELOG.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

write=false
[[ ${1:-} == --write ]] && write=true
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
crates=(dynamodb-lean-client dynamodb-writes idempotency-core idempotency-http idempotency-macros idempotency-dynamodb idempotency-postgres idempotency-valkey idempotency-lambda idempotency-testkit)
different=()
mkdir -p tests/public-api
# rustdoc's JSON is not stable yet.
RUSTDOCFLAGS="-Z unstable-options --output-format json --cap-lints allow" tests/scripts/doc.sh --quiet --lib
# With the versions of the workspace, so that most of it is compiled already.
cp Cargo.lock tests/public-api/
cargo build --quiet --manifest-path tests/public-api/Cargo.toml --target-dir "$target"
cargo fmt --manifest-path tests/public-api/Cargo.toml --check
for crate in "${crates[@]}"; do
    surface=$("$target/debug/idempotency-public-api" "$target/doc/${crate//-/_}.json")
    file=tests/public-api/$crate.txt
    if $write; then
        printf '%s\n' "$surface" >"$file"
    elif ! diff -u --label "$file" --label "the code" "$file" - <<<"$surface"; then
        different+=("$crate")
    fi
done
if ((${#different[@]} > 0)); then
    echo "public-api.sh: the public surface of ${different[*]} changed: run tests/scripts/public-api.sh --write, and read the difference" >&2
    exit 1
fi
