#!/usr/bin/env bash
# features.sh <folder>: writes a package that asks for the features which the dependencies have in the tests of the workspace. As a member
# of another workspace it makes them the same there: they are compiled already. Our own crates keep the features that they are asked for.
set -euo pipefail
mkdir -p "$1/src"
touch "$1/src/lib.rs"
exec >"$1/Cargo.toml"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

printf '[package]\nname = "features"\nedition = "2024"\n[lib]\ntest = false\n[dependencies]\n'
cargo tree --workspace --edges normal,dev --prefix none --format '{p} {f}' | grep -v '(' | sort -u | awk 'NF { features[$1 " " $2] = features[$1 " " $2] "," $3 }
END {
    for (package in features) {
        split(package, of, " v")
        sub(/\+.*/, "", of[2])
        sub(/^,+/, "", features[package])
        gsub(/[^,]+/, "\"&\"", features[package])
        gsub(/,+/, ",", features[package])
        printf "of%d = { package = \"%s\", version = \"=%s\", default-features = false, features = [%s] }\n", ++number, of[1], of[2], features[package]
    }
}'
