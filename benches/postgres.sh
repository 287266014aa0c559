#!/usr/bin/env bash
# Measures the store on PostgreSQL beside SQL that is written by hand, on a server of PostgreSQL 18 that it installs and starts.
#   benches/postgres.sh           prints the table, and writes it to benches/results/postgres.md
#   benches/postgres.sh --quick   a few calls: shows that it works, and proves nothing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/scripts/postgres-servers.sh
source benches/beside.sh
build postgres

unpack_servers
bin=${servers[-1]} port=$(free_port)
# Its pages stay in memory, so that the disk does not hide what a call costs.
init_server "$bin" "$scratch/run/server" 'fsync = off'
as=("${on_core[@]}" "${as[@]}")
start_server "$bin" "$scratch/run/server" "$port"

compare postgres "127.0.0.1:$port" "$("$bin/postgres" --version)" "$@" <<'TEXT'
The store on PostgreSQL beside SQL by hand
`by hand` is one statement for the claim, and one for the completion that compares the owner: `benches/postgres`. It keeps these promises too: one
run for a key, its response for duplicates, another amount is refused, a claim whose lease ended is taken over by one call, a late owner writes nothing, and
with `own SQL` the rows commit with the response. A connection waits for locks, and holds those of an idle transaction, for one lease; it
sets that once. Not by hand: a duplicate that never waits for a transaction which changes its row, a wait within the time of the request, and a check for
statements that a pooler mixed up. `own SQL` is a fresh call whose
handler reads a balance and changes two rows in the transaction of its response. Each side has one connection, on loopback, in one process and on
one thread, beside a server on another core that does not wait for its disk. A round trip of `sqlx` tests each connection that is returned to a pool. Both sides
take the token of an owner from the operating system, a system call: two processes that were restored from one snapshot would share another generator.
TEXT
