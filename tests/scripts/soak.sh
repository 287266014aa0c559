#!/usr/bin/env bash
# The soak of our function and of one with the library for Python: `tests/examples/soak`. Fails if our function breaks a
# promise.
#
#   SOAK_ROUNDS   number of turns of each side, 4 by default
#   SOAK_SECONDS  length of a turn in seconds, 15 by default
#   SOAK_SEED     seed of the first turn, 1 by default; each turn adds one
#   SOAK_FAULTS   how many of 1,000 requests to DynamoDB get a fault, 100 by default
#   SOAK_OVERRUNS how many of 1,000 deliveries overrun their deadline, 8 by default
#   SOAK_EVENTS   how many events our process takes at a time, 1 by default; for more than 1 also set SOAK_OURS
#   SOAK_EXPLAIN  if set, prints the requests of each delivery that ended in an error of the store
#   SOAK_OURS     if set, Python is neither run nor installed, as with the next two
#   SOAK_HOST     `server`: our function is an HTTP server that renews its leases, instead of one on Lambda
#   SOAK_STORE    `valkey`: it has a server of Valkey, which is restarted, frozen and cut off, instead of DynamoDB
#   SOAK_DELIVERIES  the least number of deliveries: more turns are made until there were so many
#
# Variables that begin with IDEMPOTENCY_ are settings of our function, such as IDEMPOTENCY_ON_IN_PROGRESS=wait.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# Python has no server.
if [[ -z ${SOAK_OURS:-} && ${SOAK_STORE:-} != valkey && ${SOAK_HOST:-} != server ]]; then
    source tests/scripts/python.sh
else
    unset PYTHON
fi
if [[ ${SOAK_STORE:-} == valkey ]]; then
    source tests/scripts/valkey-servers.sh
    export VALKEY_SERVER=${servers[-1]}
fi
# With the features of all tests of the workspace, which CI has compiled.
cargo build --quiet --workspace --features idempotency-tests/servers --example soak
exec target/debug/examples/soak
