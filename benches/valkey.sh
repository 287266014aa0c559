#!/usr/bin/env bash
# Measures the store on Valkey beside commands of `redis` that are written by hand, on a server of Valkey 9 that it installs and starts.
#   benches/valkey.sh           prints the table, and writes it to benches/results/valkey.md
#   benches/valkey.sh --quick   a few calls: shows that it works, and proves nothing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/scripts/valkey-servers.sh
CARGO_TARGET_DIR=target/benches/valkey cargo build --manifest-path benches/Cargo.toml --package valkey --release --locked

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
scratch=$(mktemp -d)
"${servers[-1]}" --port "$port" --bind 127.0.0.1 --dir "$scratch" --save '' --appendonly no >"$scratch/log" 2>&1 &
server=$!
trap 'kill -KILL "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT
until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    kill -0 "$server" 2>/dev/null || { cat "$scratch/log" >&2; exit 1; }
    sleep 0.1
done

program=target/benches/valkey/release/valkey
if [[ ${1:-} == --quick ]]; then
    "$program" "redis://127.0.0.1:$port" 2
    exit
fi
status=0
load=$(cut -d' ' -f1 /proc/loadavg)
"$program" "redis://127.0.0.1:$port" | tee "$scratch/table" || status=$?
{
    printf '# The store on Valkey beside commands by hand\n\n'
    printf 'Made by `benches/valkey.sh`, on %s with %s cores and a load of %s, on %s.\n\n' "$(date -u +%F)" "$(nproc)" "$load" "$("${servers[-1]}" --version | cut -d' ' -f1-3)"
    printf '`by hand` keeps the same promises on this path: a digest of the selected values as key, one of the payload, a lease that ends by the clock of the\n'
    printf 'caller, and a fence. A claim is one `SET .. NX GET`, a completion a script that compares the claim: `benches/valkey/src/by_hand.rs`.\n'
    printf 'Both have one connection, in one process and on one thread. The server keeps no file. The first rows are on loopback, the last ones over\n'
    printf 'a proxy that takes at least 0.25 ms in each direction.\n\n'
    cat "$scratch/table"
} >benches/results/valkey.md
exit "$status"
