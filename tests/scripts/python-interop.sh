#!/usr/bin/env bash
# Runs a function in Python with the real library and one in Rust on the same table: `tests/examples/interop`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/python.sh

# With the features of all tests of the workspace, which CI has compiled.
cargo build --quiet --workspace --features idempotency-tests/servers --example interop
# Limited, because a handler that gets no instruction waits without end.
timeout 300 target/debug/examples/interop
