#!/usr/bin/env bash
# Checks that a version can be released: release-check.sh <version>.
# The workspace has that version, each published crate's changelog has a section for it, and the repository's address is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=${1:?usage: release-check.sh <version>}
failed=0

# of_workspace <key>: its value in [workspace.package].
of_workspace() {
    sed -n '/^\[workspace.package\]/,/^\[/s/^'"$1"' = "\(.*\)"/\1/p' Cargo.toml
}

found=$(of_workspace version)
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
# A build with `--locked` refuses a file that names other versions of our crates.
while IFS= read -r lock; do
    manifest=$(dirname "$lock")/Cargo.toml
    if ! cargo metadata --locked --format-version 1 --manifest-path "$manifest" >/dev/null 2>&1; then
        echo "$lock does not fit: run \`cargo update --workspace --manifest-path $manifest\`"
        failed=1
    fi
done < <(git ls-files '*Cargo.lock')
# Other crates use the hidden interface of one version of these.
for crate in dynamodb-lean-client idempotency-{expression,core,macros,http,dynamodb,lambda}; do
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
# The pages of the crates, the links of their READMEs and the downloads of the command are below this address.
repository=$(of_workspace repository)
homepage=$(of_workspace homepage)
if [[ ! $repository =~ ^https://[^/]+/. || $repository =~ ^https://[^/]+\.invalid/ || $homepage != "$repository"/* ]]; then
    echo "Cargo.toml has repository \"$repository\" and homepage \"$homepage\": set both in [workspace.package], to the address that is cloned and to a page below it"
    failed=1
fi
for crate in dynamodb-*/ idempotency-*/; do
    for key in 'repository.workspace = true' 'homepage.workspace = true' "documentation = \"https://docs.rs/${crate%/}\""; do
        grep -qxF "$key" "$crate/Cargo.toml" || { echo "$crate""Cargo.toml lacks \`$key\`"; failed=1; }
    done
done
exit "$failed"
