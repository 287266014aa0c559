#!/usr/bin/env bash
# Checks that a version can be released: release-check.sh <version>.
# The workspace has that version, and each published crate's changelog has a section for it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=${1:?usage: release-check.sh <version>}
failed=0

found=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
if [[ $found != "$version" ]]; then
    echo "Cargo.toml has version $found: set it to $version, in [workspace.package] and in [workspace.dependencies]"
    failed=1
fi
# A requirement that is left behind would make the new crates depend on the old ones.
others=$(sed -n '/^\[workspace.dependencies\]/,/^\[/p' Cargo.toml | grep -E '^(dynamodb|idempotency)-' | grep -vE "version = \"=?$version\"" || true)
if [[ -n $others ]]; then
    echo "Cargo.toml requires another version than $version in [workspace.dependencies]:"
    echo "$others"
    failed=1
fi
# Other crates use the hidden interface of one version of these.
for crate in dynamodb-writes idempotency-{expression,core,macros,http,dynamodb}; do
    if ! grep -qE "^$crate = .*version = \"=$version\"" Cargo.toml; then
        echo "Cargo.toml does not pin $crate: write version = \"=$version\""
        failed=1
    fi
done
for changelog in */CHANGELOG.md; do
    if ! grep -qF "## [$version]" "$changelog"; then
        echo "$changelog has no section \`## [$version]\`: rename \`## [Unreleased]\` and add the date"
        failed=1
    fi
done
exit "$failed"
