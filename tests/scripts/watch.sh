# Source this. It starts and stops functions under `cargo lambda watch`; the script that sources it has `fail`.

source tests/scripts/port.sh

# IPv4 throughout: cargo-lambda's own default is IPv6, which containers often lack.
host=127.0.0.1
wait_seconds=60 # for a server to listen, and for a response

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

# same_response <response> <repeated>: returns true if they are equal, except for the header that a replay over HTTP has.
same_response() {
    python3 - "$@" <<'EOF'
import json, sys
responses = [json.loads(text) for text in sys.argv[1:]]
for response in responses:
    for headers in ("headers", "multiValueHeaders"):
        (response.get(headers) or {}).pop("idempotent-replayed", None)
sys.exit(responses[0] != responses[1])
EOF
}
