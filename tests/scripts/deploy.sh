#!/usr/bin/env bash
# Checks that the four formats of `idempotency table template` describe the same table, permissions and alarms: the files in deploy/,
# and a table with a sort key and a key of KMS. CDK is synthesised. Terraform is parsed and formatted by its own code, without a provider.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/tools.sh

wanted="aws-cdk-lib@2.276.0 constructs@10.8.1 typescript@5.9.3 @types/node@20.19.25 yaml@2.8.1 @cdktf/hcl-tools@0.21.0 @cdktf/hcl2json@0.21.0"
modules="$PWD/.tools/deploy"
if [[ "$(cat "$modules/installed" 2>/dev/null || true)" != "$wanted" ]]; then
    echo "installing into .tools/deploy: $wanted"
    rm -rf "$modules"
    mkdir -p "$modules"
    echo '{"private": true}' >"$modules/package.json"
    # Unquoted on purpose: one argument for each package.
    # shellcheck disable=SC2086
    npm install --prefix "$modules" --no-audit --no-fund --silent $wanted
    echo "$wanted" >"$modules/installed"
fi
[[ ${1:-} != --install ]] || exit 0

made=target/deploy
rm -rf "$made"
mkdir -p "$made/shared"
# The modules are found from here.
ln -s "$modules/node_modules" "$made/node_modules"
cp -rL deploy "$made/deploy"
# The command, with the features of all tests of the workspace, which CI has compiled.
cargo test --quiet --workspace --test cli --no-run
for format in sam:table.yaml cdk:idempotency-table.ts terraform:table.tf json:table.json; do
    IDEMPOTENCY_KEY_ATTR=pk IDEMPOTENCY_SORT_KEY_ATTR=sk IDEMPOTENCY_EXPIRY_ATTR=ends IDEMPOTENCY_STATIC_PK_VALUE=shop \
        target/debug/idempotency table template --format "${format%%:*}" --function Pay=pay --table shared --alarms Shop \
        --kms-key arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab \
        >"$made/shared/${format##*:}"
done
cfn-lint "$made"/{deploy,shared}/table.{yaml,json}
for folder in deploy shared; do
    (cd "$made" && node_modules/.bin/tsc --strict --target es2022 --module nodenext --types node --outDir "$folder" "$folder/idempotency-table.ts")
    cp tests/scripts/deploy.mjs "$made/$folder"
    JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION=1 node "$made/$folder/deploy.mjs"
done
