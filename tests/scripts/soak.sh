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
#   SOAK_STORE    `valkey` or `postgres`: it has such a server, which is restarted, frozen and cut off, instead of DynamoDB
#   SOAK_DELIVERIES  the least number of deliveries: more turns are made until there were so many
#   SOAK_TRANSFERS   the same of transfers of money, which the handler makes in PostgreSQL if this is set
#
# Variables that begin with IDEMPOTENCY_ are settings of our function, such as IDEMPOTENCY_ON_IN_PROGRESS=wait.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# Python has no server.
if [[ -z ${SOAK_OURS:-} && -z ${SOAK_STORE:-} && ${SOAK_HOST:-} != server ]]; then
    source tests/scripts/python.sh
else
    unset PYTHON
fi
if [[ ${SOAK_STORE:-} == valkey ]]; then
    source tests/scripts/valkey-servers.sh
    export VALKEY_SERVER=${servers[-1]}
fi
if [[ ${SOAK_STORE:-} == postgres ]]; then
    source tests/scripts/postgres-servers.sh
    unpack_servers
    export POSTGRES_BIN=${servers[-1]} POSTGRES_AS=${as[*]} POSTGRES_RUN=$scratch/run
    init_server "$POSTGRES_BIN" "$scratch/run/template" 'fsync = off'
fi
# With the features of all tests of the workspace, which CI has compiled.
cargo build --quiet --workspace --features idempotency-tests/servers --example soak
target/debug/examples/soak
