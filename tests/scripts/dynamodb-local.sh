#!/usr/bin/env bash
# Runs the store conformance suite, and the writes to business items, against AWS's own DynamoDB Local, which Maven fetches
# into .tools/ of the checkout.
# It needs Java 17 and Maven.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() { echo "dynamodb-local.sh: $*" >&2; exit 1; }

source tests/scripts/port.sh

host=127.0.0.1
wait_seconds=60 # for the server to listen
pom=tests/dynamodb-local/pom.xml
home=.tools/dynamodb-local
scratch=$(mktemp -d)
server=''

finish() {
    local status=$?
    trap - EXIT INT TERM
    if [[ -n $server ]]; then
        kill -TERM "$server" 2>/dev/null || true
        for _ in {1..50}; do
            kill -0 "$server" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    if ((status != 0)); then
        tail -n 40 "$scratch"/*.log >&2 || true
    fi
    rm -rf "$scratch"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

command -v java >/dev/null || fail "there is no java: install a JDK 17"
if ! cmp --silent "$pom" "$home/pom.xml"; then
    command -v mvn >/dev/null || fail "there is no mvn: install Maven"
    echo "fetching DynamoDB Local into $home"
    rm -rf "$home"
    mkdir -p "$home"
    mvn --quiet --batch-mode -Dstyle.color=never --file "$pom" dependency:copy-dependencies -DoutputDirectory="$PWD/$home/lib"
    cp "$pom" "$home/pom.xml" # last, so that an interrupted download starts again
fi
[[ ${1:-} != --install ]] || exit 0

# Compiled first: a compile error shows here, and the server runs only for the tests. With the features of all tests of the workspace,
# which CI has compiled.
cargo build --workspace --features idempotency-tests/servers --example conformance
cargo test --workspace --test dynamodb --test business --no-run

port=$(free_port)
# In memory and without telemetry. It has no option for the address, and listens on all of them while the tests run.
java -Djava.library.path="$home/lib" -cp "$home/lib/*" software.amazon.dynamodb.services.local.main.ServerRunner \
    -inMemory -disableTelemetry -port "$port" </dev/null >"$scratch/dynamodb-local.log" 2>&1 &
server=$!
for ((second = 0; ; second++)); do
    if (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null; then break; fi
    kill -0 "$server" 2>/dev/null || fail "DynamoDB Local ended before it listened"
    ((second < wait_seconds)) || fail "nothing listens on port $port after $wait_seconds seconds"
    sleep 1
done

# A loopback address must not go through a proxy, and no account of the developer is used.
export NO_PROXY=$host no_proxy=$host
conformance() { target/debug/examples/conformance "$@" 2>&1 | tee -a "$scratch/conformance.log"; }
if conformance; then fail "the suite passes without a database"; fi
export CONFORMANCE_DYNAMODB_ENDPOINT="http://$host:$port"
conformance
conformance differences
CONFORMANCE_DYNAMODB_LOCAL="http://$host:$port" cargo test --workspace --test business -- dynamodb_local 2>&1 |
    tee "$scratch/business.log"
grep -q ' 1 passed' "$scratch/business.log" || fail "the test of business items did not run"
# Transfers of money with kills, lost replies and slow owners. TRANSFERS sets their number.
TRANSFERS=${TRANSFERS:-300} TRANSFERS_DYNAMODB_ENDPOINT="http://$host:$port" \
    cargo test --workspace --test dynamodb -- balances_are_exact 2>&1 | tee "$scratch/transfers.log"
grep -q ' 1 passed' "$scratch/transfers.log" || fail "the transfers did not run"
echo "both key layouts conform with both clients on $(grep -m1 '^Version:' "$scratch/dynamodb-local.log" | sed 's/Version:[[:space:]]*/DynamoDB Local /')"
