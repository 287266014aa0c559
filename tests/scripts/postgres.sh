#!/usr/bin/env bash
# Runs the tests of the store on PostgreSQL and of examples/transfer against real servers, which it installs into .tools/ of the checkout
# and starts on free ports of the loopback interface: PostgreSQL 15 and 18, each also behind PgBouncer. Some tests start and kill a server
# of their own. On PostgreSQL 14 and 17 it runs the conformance suite and the tests of transactions.
#   tests/scripts/postgres.sh              all of that
#   tests/scripts/postgres.sh conformance  the tests with this in their name, on each server
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() { echo "postgres.sh: $*" >&2; exit 1; }

source tests/scripts/postgres-servers.sh
# Compiled first, so that a compile error shows once. With the features of all tests of the workspace, which CI has compiled.
with=(--workspace --features idempotency-tests/servers,transfer/__servers,idempotency-cli/__servers)
tests=("${with[@]}" --test postgres --test transfers)
cargo test "${tests[@]}" --test cli --no-run

unpack_servers

# Starts PgBouncer in a mode: `pooler MODE PORT`.
pooler() {
    local mode=$1 port=$2 run=$scratch/run/pooler-$1-$2
    "${as[@]}" mkdir "$run"
    printf '%s\n' '[databases]' "* = host=127.0.0.1 port=$server_port" '[pgbouncer]' "listen_addr = 127.0.0.1" "listen_port = $port" \
        'auth_type = any' "unix_socket_dir =" "pool_mode = $mode" 'default_pool_size = 3' "pidfile = $run/pgbouncer.pid" "logfile = $run/log" >"$scratch/pooler-$port.ini"
    sed -i "s/^\* = .*/& user=postgres/" "$scratch/pooler-$port.ini"
    "${as[@]}" "$scratch/usr/sbin/pgbouncer" --quiet --daemon "$scratch/pooler-$port.ini"
}

for bin in "${older[@]}" "${servers[@]}"; do
    version=$("$bin/postgres" --version) || fail "$bin/postgres does not start"
    echo "=== $version"
    server_port=$(free_port)
    run=$scratch/run/$server_port
    # No test asks what a crash of the machine leaves.
    init_server "$bin" "$run" 'fsync = off' 'jit = off' 'max_connections = 200'
    sed -i "1i host all +secret 127.0.0.1/32 scram-sha-256" "$run/pg_hba.conf"
    cp -a "$run" "$scratch/run/template"
    start_server "$bin" "$run" "$server_port" || fail "$version does not start"
    # The soak, the faults at each statement and the levels of isolation run on the last one, unless they are asked for.
    chosen=("$@")
    if (($# == 0)); then
        case $bin in
        "${servers[-1]}") ;;
        "$scratch"/jars/*) chosen=(conformance:: operator:: transactions:: --skip pooler --skip isolation) ;;
        *) chosen=(--skip soak:: --skip retry_safety:: --skip isolation) ;;
        esac
    fi
    transactions=$(free_port) statements=$(free_port)
    pooler transaction "$transactions"
    pooler statement "$statements"
    export POSTGRES_SERVER=127.0.0.1:$server_port
    POSTGRES_BIN=$bin POSTGRES_AS=${as[*]} POSTGRES_RUN=$scratch/run \
        POSTGRES_POOLER=127.0.0.1:$transactions POSTGRES_STATEMENT_POOLER=127.0.0.1:$statements \
        cargo test "${tests[@]}" -- "${chosen[@]}" 2>&1 | tee "$scratch/report"
    if ! grep -qE ' [1-9][0-9]* passed' "$scratch/report"; then fail "no test has \"$*\" in its name"; fi
    # What the operator's command does with a table.
    [[ -n $* || $bin == "$scratch"/jars/* ]] || cargo test "${with[@]}" --test cli -- postgres::
    rm -rf "$scratch/run/template"
done
