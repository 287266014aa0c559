#!/usr/bin/env bash
# Measures the store on PostgreSQL beside SQL that is written by hand, on a server of PostgreSQL 18 that it installs and starts.
#   benches/postgres.sh           prints the table, and writes it to benches/results/postgres.md
#   benches/postgres.sh --quick   a few calls: shows that it works, and proves nothing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/scripts/postgres-servers.sh
CARGO_TARGET_DIR=target/benches/postgres cargo build --manifest-path benches/Cargo.toml --package postgres --release --locked

unpack_servers
bin=${servers[-1]} port=$(free_port)
# Its pages stay in memory, so that the disk does not hide what a call costs.
init_server "$bin" "$scratch/run/server" 'fsync = off'
start_server "$bin" "$scratch/run/server" "$port"

program=target/benches/postgres/release/postgres
if [[ ${1:-} == --quick ]]; then
    "$program" "127.0.0.1:$port" 2
    exit
fi
status=0
load=$(cut -d' ' -f1 /proc/loadavg)
"$program" "127.0.0.1:$port" | tee "$scratch/table" || status=$?
{
    printf '# The store on PostgreSQL beside SQL by hand\n\n'
    printf 'Made by `benches/postgres.sh`, on %s with %s cores and a load of %s, on %s.\n\n' "$(date -u +%F)" "$(nproc)" "$load" "$("$bin/postgres" --version)"
    printf '`by hand` is one statement for the claim, and one for the completion that compares the owner: `benches/postgres`. `own SQL` is a fresh call whose\n'
    printf 'handler reads a balance and changes two rows in the transaction of its response. Each side has one connection, on loopback, in one process and on\n'
    printf 'one thread. The server does not wait for its disk. A round trip of `sqlx` tests each connection that is returned to a pool.\n\n'
    cat "$scratch/table"
} >benches/results/postgres.md
exit "$status"
