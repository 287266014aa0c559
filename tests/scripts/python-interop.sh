#!/usr/bin/env bash
# Runs a function in Python, with the real library, and one in Rust on one table: `tests/examples/interop`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The versions that made the vectors in tests/vectors.
wanted="aws-lambda-powertools==3.37.0 boto3==1.44.5 jmespath==1.1.0"

# An environment of its own: what tools.sh installs asks for other versions.
environment="$PWD/.tools/interop"
if [[ "$(cat "$environment/installed" 2>/dev/null || true)" != "$wanted" ]]; then
    echo "installing into .tools/interop: $wanted"
    rm -rf "$environment"
    python3 -m venv "$environment"
    # Unquoted on purpose: one argument a package.
    # shellcheck disable=SC2086
    "$environment/bin/pip" install --quiet --disable-pip-version-check $wanted
    echo "$wanted" >"$environment/installed"
fi

# Nothing of the developer's own account: a mistake here must not reach AWS.
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_ENDPOINT_URL_DYNAMODB

cargo build --quiet -p idempotency-tests --example interop
# Bounded, because a handler that is never told to go on waits for ever.
PYTHON="$environment/bin/python3" timeout 300 cargo run --quiet -p idempotency-tests --example interop
