#!/usr/bin/env bash
# Checks how documents and templates name our crates: by the path of a checkout until they are published, and never after. Before that, any
# account can register the names on crates.io, and its code would get into functions that move money. The address of the repository in
# Cargo.toml says which of both holds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

crates='(dynamodb-(lean-client|writes)|idempotency-(cli|core|dynamodb|expression|http|lambda|macros|postgres|testkit|valkey))'
places=('*.md' 'templates/*' ':!docs/guide/releases.md')
# A dependency, or a command of cargo.
named="(\b$crates = [\"{]|cargo (add|install|binstall) .*\b$crates\b)"
by_path='(path = "|--path )'

found=$(git grep --untracked -nE "$named" -- "${places[@]}"; git grep --untracked -nE "^ *//[/!].*$named" -- '*.rs' || true)
if grep -q '^repository = "https://repository\.invalid/' Cargo.toml; then
    if grep -vE "$by_path" <<<"$found"; then
        echo "the crates are not published, and these names on crates.io are not ours: write the path of a checkout"
        exit 1
    fi
elif grep -E "$by_path" <<<"$found"; then
    echo "the crates are published: write their version, and take the prompt \`checkout\` out of the templates"
    exit 1
fi
