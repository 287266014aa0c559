#!/usr/bin/env bash
# Compares the public surface of each published library with the last release: a change that breaks a user's program needs a higher
# version in Cargo.toml. Before the first release there is nothing to compare with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

SEMVER_CHECKS_VERSION=0.51.0
if [[ $(git rev-parse --is-shallow-repository) == true ]]; then
    echo "semver.sh: this clone has no history, so it does not know the last release: fetch all of it, with the tags" >&2
    exit 2
fi
# The commit of a release has a tag itself, so its parent is asked.
last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 'HEAD^' 2>/dev/null || true)
if [[ -z $last ]]; then
    echo "there is no release to compare with"
    exit 0
fi
export PATH="$PWD/.tools/bin:$PATH"
[[ "$(cargo semver-checks --version 2>/dev/null || true)" == "cargo-semver-checks $SEMVER_CHECKS_VERSION" ]] ||
    CARGO_TARGET_DIR=.tools/target cargo install cargo-semver-checks --locked --debug --version "$SEMVER_CHECKS_VERSION" --root .tools

# The libraries with a promise: a text in tests/public-api. The tool cannot compare macros. What is new breaks no program.
packages=()
for surface in tests/public-api/*.txt; do
    crate=$(basename "$surface" .txt)
    if [[ $crate != idempotency-macros ]] && git cat-file -e "$last:$crate/Cargo.toml" 2>/dev/null; then
        packages+=(--package "$crate")
    fi
done
cargo semver-checks --all-features --baseline-rev "$last" "${packages[@]}"
