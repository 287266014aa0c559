#!/usr/bin/env bash
# Runs every example under `cargo lambda watch` with its event of examples/events, twice, and checks that the second event
# gets the stored response. All use the store in memory. The payment example is repeated with DynamoDB, where its record also
# survives a restart of the function.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/tools.sh
source tests/scripts/watch.sh

fail() { echo "cargo-lambda.sh: $*" >&2; exit 1; }

scratch=$(mktemp -d)
# For each function that runs: the leader of its process group, and its port.
declare -A watches=() ports=()
dynamodb=''

finish() {
    local status=$?
    trap - EXIT INT TERM
    for function in "${!watches[@]}"; do
        stop "${watches[$function]}"
    done
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

# start_function <package> [NAME=value ...]: starts the function with these variables on a free port.
start_function() {
    local function=$1
    shift
    ports[$function]=$(free_port)
    set -m
    env "$@" cargo lambda watch --ignore-changes --wait --package "$function" --bin "$function" \
        --invoke-address "$host" --invoke-port "${ports[$function]}" </dev/null >>"$scratch/$function.log" 2>&1 &
    watches[$function]=$!
    set +m
}

# await_function <package>
await_function() {
    await_port "${ports[$1]}" "${watches[$1]}"
}

stop_function() {
    stop "${watches[$1]}"
    unset "watches[$1]"
}

# invoke <package> <event file>
invoke() {
    # Limited, because cargo-lambda waits without end for a function that ended before its first event.
    timeout "$wait_seconds" cargo lambda invoke "$1" --invoke-address "$host" --invoke-port "${ports[$1]}" --data-file "$2" ||
        fail "invoke of $1 failed"
}

# check_twice <package> <event file> <runs> <line>: sends the event twice. The handler logs the line each time it begins.
check_twice() {
    local function=$1 event=$2 runs=$3 line=$4 first second seen
    await_function "$function"
    first=$(invoke "$function" "$event")
    second=$(invoke "$function" "$event")
    echo "$function: $first"
    same_response "$first" "$second" || fail "$function: the repeated event got another response: $second"
    seen=$(grep -c "$line" "$scratch/$function.log" || true)
    ((seen == runs)) || fail "$function: \`$line\` was logged $seen times, not $runs"
    stop_function "$function"
}

payment_id() {
    grep -o 'payment_id\\*": *\\*"[^"\\]*' <<<"$1" || fail "no payment_id in the response: $1"
}

functions=(payment http-api orders ledger shipping)
event=examples/events/payment.json
other_event="$scratch/other.json"
sed 's/o-1001/o-2002/' "$event" >"$other_event"

# Compiled first, with the flags that `watch` and `run` use: a compile error shows here, and the starts below are quick. One
# command for each package, because one for all would choose other features.
for function in "${functions[@]}"; do
    cargo build -p "$function" --bin "$function"
done
# With the features of all tests of the workspace, which CI has compiled.
cargo build --workspace --example dynamodb

echo "-- in memory"
for function in "${functions[@]}"; do
    start_function "$function" IDEMPOTENCY_STORE=memory
done
check_twice http-api examples/events/http.json 1 'refunding the payment'
check_twice orders examples/events/orders.json 2 'reserving stock'
check_twice ledger examples/events/ledger.json 4 'posting the entry'
check_twice shipping examples/events/shipping.json 1 'booking a parcel'
await_function payment
first=$(invoke payment "$event")
other=$(invoke payment "$other_event")
first_id=$(payment_id "$first")
other_id=$(payment_id "$other")
# Each run of the handler makes a new payment_id. This checks that it makes new ones.
[[ $other_id != "$first_id" ]] || fail "another order got the payment_id of the first one: $other"
check_twice payment "$event" 2 'charging the card'

echo "-- in DynamoDB"
endpoint_port=$(free_port)
set -m
target/debug/examples/dynamodb --port "$endpoint_port" --table idempotency \
    </dev/null >"$scratch/dynamodb.log" 2>&1 &
dynamodb=$!
set +m
await_port "$endpoint_port" "$dynamodb"
store=(IDEMPOTENCY_STORE=dynamodb IDEMPOTENCY_TABLE=idempotency "AWS_ENDPOINT_URL_DYNAMODB=http://$host:$endpoint_port")

start_function payment "${store[@]}"
await_function payment
stored=$(invoke payment "$event")
repeated=$(invoke payment "$event")
stop_function payment
start_function payment "${store[@]}"
await_function payment
restarted=$(invoke payment "$event")
stop_function payment
echo "$stored"
stored_id=$(payment_id "$stored")
[[ $stored_id != "$first_id" ]] || fail "an empty table replayed a response: $stored"
same_response "$stored" "$repeated" || fail "the repeated event got another response: $repeated"
same_response "$stored" "$restarted" || fail "after a restart the event got another response: $restarted"

echo "one run for each operation; every repetition got the stored response"
