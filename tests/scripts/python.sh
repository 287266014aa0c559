# Source this at the root of the checkout. It installs the library for Python into .tools/interop and sets PYTHON to its
# interpreter.

# The versions that made the vectors in tests/vectors.
wanted="aws-lambda-powertools==3.37.0 boto3==1.44.5 jmespath==1.1.0"

# Separate from what tools.sh installs, which needs other versions.
environment="$PWD/.tools/interop"
if [[ "$(cat "$environment/installed" 2>/dev/null || true)" != "$wanted" ]]; then
    echo "installing into .tools/interop: $wanted"
    rm -rf "$environment"
    python3 -m venv "$environment"
    # Unquoted on purpose: one argument for each package.
    # shellcheck disable=SC2086
    "$environment/bin/pip" install --quiet --disable-pip-version-check $wanted
    echo "$wanted" >"$environment/installed"
fi
export PYTHON="$environment/bin/python3"

# No credentials of the developer: a mistake here must not reach AWS.
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_ENDPOINT_URL_DYNAMODB
