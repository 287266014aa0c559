# Sourced at the root of the checkout: installs the library for Python into .tools/interop, and sets PYTHON to an
# interpreter that has it.

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
export PYTHON="$environment/bin/python3"

# Nothing of the developer's own account: a mistake here must not reach AWS.
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL AWS_ENDPOINT_URL_DYNAMODB
