#!/usr/bin/env bash
# Runs the payment example under `cargo lambda watch` and checks that a repeated event gets the recorded response: first
# with the store in memory, then with DynamoDB, where the record also survives a restart of the function.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/tools.sh

fail() { echo "cargo-lambda.sh: $*" >&2; exit 1; }

# IPv4 throughout: cargo-lambda's own default is IPv6, which containers often lack.
host=127.0.0.1
wait_seconds=60 # for a server to listen, and for a response
scratch=$(mktemp -d)
watch='' dynamodb=''

# Each server leads a process group, so that its children end with it.
stop() {
    local leader=$1
    [[ -n $leader ]] || return 0
    kill -TERM -- "-$leader" 2>/dev/null || true
    for _ in {1..50}; do
        kill -0 -- "-$leader" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL -- "-$leader" 2>/dev/null || true
    wait "$leader" 2>/dev/null || true
}

finish() {
    local status=$?
    trap - EXIT INT TERM
    stop "$watch"
    stop "$dynamodb"
    if ((status != 0)); then
        tail -n 40 "$scratch"/*.log >&2 || true
    fi
    rm -rf "$scratch"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# await_port <port> <leader of the process group that opens it>
await_port() {
    local port=$1 leader=$2
    for ((second = 0; second < wait_seconds; second++)); do
        if (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null; then return 0; fi
        kill -0 "$leader" 2>/dev/null || fail "the server for port $port ended before it listened"
        sleep 1
    done
    fail "nothing listens on port $port after $wait_seconds seconds"
}

# start_function [NAME=value ...]: starts the function with these variables on a free port.
start_function() {
    port=$(free_port)
    set -m
    env "$@" cargo lambda watch --ignore-changes --wait --package payment --bin payment \
        --invoke-address "$host" --invoke-port "$port" </dev/null >>"$scratch/watch.log" 2>&1 &
    watch=$!
    set +m
    await_port "$port" "$watch"
}

stop_function() {
    stop "$watch"
    watch=''
}

invoke() {
    # Limited, because cargo-lambda waits without end for a function that ended before its first event.
    timeout "$wait_seconds" cargo lambda invoke payment --invoke-address "$host" --invoke-port "$port" --data-file "$1" || fail "invoke failed"
}

payment_id() {
    grep -o 'payment_id\\*": *\\*"[^"\\]*' <<<"$1" || fail "no payment_id in the response: $1"
}

event=examples/events/payment.json
other_event="$scratch/other.json"
sed 's/o-1001/o-2002/' "$event" >"$other_event"

# Compiled first, with the flags that `watch` and `run` use: a compile error shows here, and the starts below are quick.
cargo build -p payment --bin payment
cargo build -p idempotency-testkit --example dynamodb

echo "-- in memory"
start_function IDEMPOTENCY_STORE=memory IDEMPOTENCY_TABLE=idempotency
first=$(invoke "$event")
second=$(invoke "$event")
other=$(invoke "$other_event")
stop_function
echo "$first"
first_id=$(payment_id "$first")
other_id=$(payment_id "$other")
[[ $second == "$first" ]] || fail "the repeated event got another response: $second"
# Each run of the handler makes a new payment_id, so equal ones prove that it ran once. This checks that it makes new ones.
[[ $other_id != "$first_id" ]] || fail "another order got the payment_id of the first one: $other"

echo "-- in DynamoDB"
endpoint_port=$(free_port)
set -m
cargo run --quiet -p idempotency-testkit --example dynamodb -- --port "$endpoint_port" --table idempotency \
    </dev/null >"$scratch/dynamodb.log" 2>&1 &
dynamodb=$!
set +m
await_port "$endpoint_port" "$dynamodb"
store=(IDEMPOTENCY_STORE=dynamodb IDEMPOTENCY_TABLE=idempotency "AWS_ENDPOINT_URL_DYNAMODB=http://$host:$endpoint_port")

start_function "${store[@]}"
stored=$(invoke "$event")
repeated=$(invoke "$event")
stop_function
start_function "${store[@]}"
restarted=$(invoke "$event")
stop_function
echo "$stored"
stored_id=$(payment_id "$stored")
[[ $stored_id != "$first_id" ]] || fail "an empty table replayed a response: $stored"
[[ $repeated == "$stored" ]] || fail "the repeated event got another response: $repeated"
[[ $restarted == "$stored" ]] || fail "after a restart the event got another response: $restarted"

echo "one run for each order; every repetition got the recorded response"
