#!/usr/bin/env bash
# Makes a project from each template of templates/ as docs/guide/start.md does, and checks what a new user would do with it: its
# format, its SAM template, one event twice under `cargo lambda watch`, where the second one must be a replay, and its tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/tools.sh
source tests/scripts/watch.sh

fail() { echo "templates.sh: $*" >&2; exit 1; }

root=$PWD
# Outside of the checkout, because a project inside would be a part of its workspace.
scratch=$(mktemp -d)
watch=''
# All projects share what they compile, also with the workspace: its packages and their dependencies have its profile here too.
export CARGO_TARGET_DIR=$root/target CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
mkdir "$scratch/.cargo"
{
    sed -n '/^\[profile.dev.package."\*"\]/,/^$/p' Cargo.toml
    printf '[profile.dev.package.%s]\ndebug-assertions = true\noverflow-checks = true\n' \
        dynamodb-{lean-client,writes} idempotency-{expression,core,macros,dynamodb,postgres,lambda,testkit}
} >"$scratch/.cargo/config.toml"

finish() {
    local status=$?
    trap - EXIT INT TERM
    stop "$watch"
    if ((status != 0)); then
        tail -n 40 "$scratch"/*.log >&2 || true
    fi
    rm -rf "$scratch"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Prints the digest of each file of this folder.
contents() {
    find . -type f -exec sha256sum {} + | sort -k 2
}

# invoke <port> <event file>
invoke() {
    # Limited, because cargo-lambda waits without end for a function that ended before its first event.
    timeout "$wait_seconds" cargo lambda invoke --invoke-address "$host" --invoke-port "$1" --data-file "$2" || fail "the invoke failed"
}

# check_project <template>: makes a project in the scratch folder and checks it.
check_project() {
    local template=$root/templates/$1 name=my-$1 new before property
    new=(--template "$template" --no-interactive)
    cd "$scratch"

    # Without a checkout it would have to take the crates from crates.io, where their names are not ours.
    if cargo lambda new "${new[@]}" "$name" </dev/null 2>"$scratch/$1.log"; then fail "a project was made without a checkout"; fi
    grep -q 'the crates are not published yet: add `--render-var' "$scratch/$1.log" || fail "the refusal without a checkout has another text"
    [[ ! -e $name ]] || fail "a refused command made files"

    # `init`, because `new` of cargo-lambda 1.9.2 overwrites a project of this name.
    mkdir "$name"
    cd "$name"
    new+=(--render-var "checkout=$root")
    cargo lambda init "${new[@]}" </dev/null
    [[ ! -e idempotency.sql ]] || fail "a project on DynamoDB has a table of PostgreSQL"
    echo >>src/main.rs
    before=$(contents)
    if cargo lambda init "${new[@]}" </dev/null 2>"$scratch/$1.log"; then fail "a project was made over another one"; fi
    grep -q 'cannot be run on existing Cargo packages' "$scratch/$1.log" || fail "the refusal has another text"
    [[ $(contents) == "$before" ]] || fail "a refused command changed files"
    sed -i '$d' src/main.rs

    # The role allows the records of the code's prefix.
    grep -q "key_prefix.*\"$name\"" src/main.rs || fail "src/main.rs has another key_prefix"
    grep -qF "LeadingKeys: [\"$name#*\"]" template.yaml || fail "the role is for another key_prefix"
    for property in 'DeletionPolicy: Retain' 'DeletionProtectionEnabled: true' 'PointInTimeRecoveryEnabled: true' 'AttributeName: expiration'; do
        grep -qF "$property" template.yaml || fail "the table has no \`$property\`"
    done
    check_rendered
    # The versions of the other steps.
    cp "$root/Cargo.lock" .
    # As `watch` builds it: its first response then comes at once.
    cargo build
    check_replay "$scratch/$1.log"
}

# Checks the files of the project.
check_rendered() {
    # AWS resolves the reference to a secret.
    if grep -rnE '\{[{%]' . | grep -v '{{resolve:secretsmanager:'; then fail "a file is not filled in"; fi
    sam validate --lint --template template.yaml
    cargo fmt --check
}

# Makes a project with its records in PostgreSQL, checks what differs from `event`, and runs its tests, which need no server.
check_postgres() {
    local new=(--template "$root/templates/event" --no-interactive --render-var "checkout=$root")
    mkdir "$scratch/my-postgres"
    cd "$scratch/my-postgres"
    if cargo lambda init "${new[@]}" --render-var store=mysql </dev/null 2>"$scratch/postgres.log"; then fail "a project was made for an unknown store"; fi
    grep -q 'there is no such store: write `--render-var' "$scratch/postgres.log" || fail "the refusal of a store has another text"
    cargo lambda init "${new[@]}" --render-var store=postgres </dev/null
    if grep -niE 'dynamo|idempotency_table' Cargo.toml README.md template.yaml; then fail "a project on PostgreSQL names DynamoDB"; fi
    cmp idempotency.sql "$root/templates/event/template/idempotency.sql" || fail "the table is filled in"
    check_rendered
    cp "$root/Cargo.lock" .
    cargo test
}

# check_replay <log>: sends the event of the project twice. The log has the outcome of each call.
check_replay() {
    local log=$1 port event first second executed replayed
    port=$(free_port)
    event=$(echo events/*.json)
    set -m
    cargo lambda watch --invoke-address "$host" --invoke-port "$port" </dev/null >"$log" 2>&1 &
    watch=$!
    set +m
    await_port "$port" "$watch"
    first=$(invoke "$port" "$event")
    second=$(invoke "$port" "$event")
    stop "$watch"
    watch=''
    echo "$first"
    echo "$second"
    same_response "$first" "$second" || fail "the second event got another response"
    # The event of the queue has several calls.
    executed=$(grep -c 'outcome="executed"' "$log" || true)
    replayed=$(grep -c 'outcome="replayed"' "$log" || true)
    ((executed > 0 && replayed == executed)) || fail "$executed calls were executed, and $replayed replayed"
}

# Runs the tests of the projects on DynamoDB as one workspace: what they depend on is then compiled once, with the features of the tests of
# the framework. benches/compile.sh builds the tests of a project alone.
test_projects() {
    cd "$scratch"
    cp "$root/Cargo.lock" .
    printf '[workspace]\nresolver = "3"\nmembers = ["my-event", "my-queue", "my-api", "features"]\n' >Cargo.toml
    "$root/tests/scripts/features.sh" features
    cargo test --workspace --tests
}

page=$(grep -o 'charge#[0-9a-f]*' docs/guide/start.md)
for kind in event queue api; do
    echo "-- $kind"
    for same in template/samconfig.toml template/.gitignore; do
        cmp "$root/templates/$kind/$same" "$root/templates/event/$same" || fail "the templates have one $same"
    done
    check_project "$kind"
done
cmp "$root"/templates/{queue,api}/CargoLambda.toml || fail "the templates without a choice have one CargoLambda.toml"
check_postgres
test_projects
grep -qF "key=my-event#${page#charge#} " "$scratch/event.log" || fail "docs/guide/start.md has another key than its event"
