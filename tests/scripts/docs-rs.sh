#!/usr/bin/env bash
# Writes the documentation of all crates as docs.rs does, with warnings denied, and looks whether an item of each feature says which feature it
# needs. rustdoc writes that by itself, from the item's `cfg`, if the crate turns on `doc_cfg`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Each feature, and a page of an item that needs it; without a page: the feature changes no public item.
table='
idempotency-core      system
idempotency-core      zstd
idempotency-dynamodb  lean-client
idempotency-dynamodb  profiles
idempotency-dynamodb  rustls-aws-lc  fn.http_client.html
idempotency-dynamodb  rustls-ring    fn.http_client.html
idempotency-dynamodb  zstd
idempotency-http      axum
idempotency-lambda    batch          batch/index.html
idempotency-lambda    dynamodb       dynamodb/index.html
idempotency-lambda    http           http/index.html
idempotency-lambda    lean-client
idempotency-lambda    metrics        metrics/index.html
idempotency-lambda    postgres
idempotency-lambda    profiles
idempotency-lambda    rustls-aws-lc
idempotency-lambda    rustls-ring
idempotency-lambda    valkey
idempotency-lambda    zstd
idempotency-valkey    zstd
idempotency-testkit   conformance    conformance/index.html
idempotency-testkit   dynamodb       dynamodb/index.html
idempotency-testkit   events         events/index.html
idempotency-testkit   lambda         lambda/index.html
idempotency-testkit   postgres       retry_safety/struct.RetrySafety.html
idempotency-testkit   retry-safety   retry_safety/index.html
'
target=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
found=0

# docs.rs has a nightly compiler; `doc_cfg` is not stable yet.
RUSTDOCFLAGS="-D warnings --cfg docsrs" tests/scripts/doc.sh

for crate in dynamodb-*/ idempotency-*/; do
    crate=${crate%/}
    if [[ -e $crate/src/lib.rs ]] && ! grep -qxF '#![cfg_attr(docsrs, feature(doc_cfg))]' "$crate/src/lib.rs"; then
        echo "$crate/src/lib.rs does not turn on doc_cfg"
        found=1
    fi
    declared=$(sed -n '/^\[features\]/,/^\[/s/^\([a-z][a-z0-9-]*\) = .*/\1/p' "$crate/Cargo.toml" | grep -vx default | sort || true)
    listed=$(awk -v crate="$crate" '$1 == crate { print $2 }' <<<"$table")
    if [[ $declared != "$listed" ]]; then
        echo "docs-rs.sh lists other features of $crate than its Cargo.toml: give each one a line in the table, in their order"
        diff <(echo "$listed") <(echo "$declared") || true
        found=1
    fi
    while read -r _ feature page; do
        if ! grep -qE "Available on <strong>crate features? [^.]*<code>$feature</code>" "$target/doc/${crate//-/_}/$page"; then
            echo "the page $page of $crate does not say that it needs the feature $feature"
            found=1
        fi
    done < <(awk -v crate="$crate" '$1 == crate && NF == 3' <<<"$table")
done
exit "$found"
