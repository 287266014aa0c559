#!/usr/bin/env bash
# Runs each example, and a function with faults, under AWS's own Lambda emulator and under the local Lambda of the testkit, with the
# embedded DynamoDB. Both must answer each event alike. The emulator has the code of Lambda's runtime interface: a real deadline, and a
# real kill at the timeout. It is built from its source with Go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

module=github.com/aws/aws-lambda-runtime-interface-emulator
version=v0.0.0-20261030222936-bef5c4ba774d
emulator=$PWD/.tools/bin/aws-lambda-rie
if ! go version -m "$emulator" 2>/dev/null | grep -qF "$version"; then
    command -v go >/dev/null || { echo "emulator.sh: install Go 1.26 or later: it builds AWS's Lambda emulator" >&2; exit 1; }
    GOBIN=$PWD/.tools/bin go install "$module/cmd/aws-lambda-rie@$version"
fi
[[ ${1:-} != --install ]] || exit 0

# One command for each package, as tests/scripts/cargo-lambda.sh builds them.
for function in payment http-api orders ledger shipping; do
    cargo build --quiet -p "$function" --bin "$function"
done
# With the features of all tests of the workspace, which CI has compiled.
cargo build --quiet --workspace --features idempotency-tests/servers --example emulator
"${CARGO_TARGET_DIR:-target}/debug/examples/emulator" "$emulator" "${CARGO_TARGET_DIR:-target}/debug"
