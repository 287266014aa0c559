#!/usr/bin/env bash
# The soak, ours beside the library for Python: `tests/examples/soak`. Fails if a promise of ours breaks.
#
#   SOAK_ROUNDS   how often each side has its turn, 4 by default
#   SOAK_SECONDS  how long a turn is, 15 by default
#   SOAK_SEED     the first turn's seed, 1 by default; each next turn takes the next one
#   SOAK_FAULTS   how many of 1,000 requests to DynamoDB go wrong, 100 by default
#   SOAK_OVERRUNS how many of 1,000 deliveries run beyond their deadline, 8 by default
#   SOAK_EVENTS   how many events a process of ours takes at a time, 1 by default; with more, leave Python out
#   SOAK_EXPLAIN  if it is set, the requests of each delivery that ended in an error of the store are printed
#   SOAK_OURS     if it is set, Python is left out, and not installed
#
# Variables that begin with IDEMPOTENCY_ are settings of our function, such as IDEMPOTENCY_ON_IN_PROGRESS=wait.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [[ -z ${SOAK_OURS:-} ]]; then
    source tests/scripts/python.sh
else
    unset PYTHON
fi
cargo build --quiet -p idempotency-tests --example soak
exec cargo run --quiet -p idempotency-tests --example soak
