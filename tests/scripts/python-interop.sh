#!/usr/bin/env bash
# Runs a function in Python with the real library and one in Rust on the same table: `tests/examples/interop`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/python.sh

cargo build --quiet -p idempotency-tests --example interop
# Limited, because a handler that gets no instruction waits without end.
timeout 300 cargo run --quiet -p idempotency-tests --example interop
