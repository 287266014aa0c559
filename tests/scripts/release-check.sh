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
for changelog in idempotency-*/CHANGELOG.md; do
    if ! grep -qF "## [$version]" "$changelog"; then
        echo "$changelog has no section \`## [$version]\`: rename \`## [Unreleased]\` and add the date"
        failed=1
    fi
done
exit "$failed"
