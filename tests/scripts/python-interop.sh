#!/usr/bin/env bash
# Runs a function in Python, with the real library, and one in Rust on one table: `tests/examples/interop`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/python.sh

cargo build --quiet -p idempotency-tests --example interop
# Bounded, because a handler that is never told to go on waits for ever.
timeout 300 cargo run --quiet -p idempotency-tests --example interop
