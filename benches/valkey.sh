#!/usr/bin/env bash
# Measures the store on Valkey beside commands of `redis` that are written by hand, on a server of Valkey 9 that it installs and starts.
#   benches/valkey.sh           prints the table, and writes it to benches/results/valkey.md
#   benches/valkey.sh --quick   a few calls: shows that it works, and proves nothing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/scripts/valkey-servers.sh
source tests/scripts/port.sh
source benches/beside.sh
build valkey

port=$(free_port)
scratch=$(mktemp -d)
"${on_core[@]}" "${servers[-1]}" --port "$port" --bind 127.0.0.1 --dir "$scratch" --save '' --appendonly no >"$scratch/log" 2>&1 &
server=$!
trap 'kill -KILL "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    kill -0 "$server" 2>/dev/null || { cat "$scratch/log" >&2; exit 1; }
    sleep 0.1
done

compare valkey "redis://127.0.0.1:$port" "$("${servers[-1]}" --version | cut -d' ' -f1-3)" "$@" <<'TEXT'
The store on Valkey beside commands by hand
`by hand` keeps the same promises on this path: a digest of the selected values as key, one of the payload, a lease that ends by the clock of the
caller, and a fence. A claim is one `SET .. NX GET`, a completion a script that compares the claim: `benches/valkey/src/by_hand.rs`.
Both have one connection, in one process and on one thread, beside a server on another core that keeps no file. The first rows are on loopback, the last ones over
a proxy that takes at least 0.25 ms in each direction.
TEXT
