#!/usr/bin/env bash
# Makes what a release has of the command `idempotency` for one target, in target/release-archives/:
#
# - an archive with the binary, its completion and man pages, and the licences of all that is in it,
# - a list of the packages that it was built from (SBOM, in the format CycloneDX),
# - a file with the SHA-256 checksums of both.
#
# Then it unpacks the archive in another folder and runs the binary.
#
#     tests/scripts/release-archive.sh [target]  # without a target: the one of this machine. Another one must run on this machine
#
# For *-linux-musl it needs the package musl-tools: parts of ring and zstd are C. Such a binary needs no library of the machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

CYCLONEDX_VERSION=0.5.9
export PATH="$PWD/.tools/bin:$PATH"
[[ "$(cargo cyclonedx --version 2>/dev/null || true)" == *" $CYCLONEDX_VERSION" ]] ||
    CARGO_TARGET_DIR=.tools/target cargo install cargo-cyclonedx --locked --debug --version "$CYCLONEDX_VERSION" --root .tools

target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The name that `cargo binstall` asks for.
archive=$(sed -n 's|^pkg-url = ".*/\(.*\)"$|\1|p' idempotency-cli/Cargo.toml)
archive=${archive//"{ version }"/$version}
archive=${archive//"{ target }"/$target}
name=${archive%.tar.gz}
binary=idempotency
[[ $target != *-windows-* ]] || binary=idempotency.exe
out=$PWD/target/release-archives
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/$name" "$out"
if [[ $target == *-linux-musl ]]; then
    export "CC_${target//-/_}=musl-gcc"
    cp /usr/share/doc/musl/copyright "$work/$name/LICENSE-OF-MUSL.txt"
fi
cargo build --release --locked --package idempotency-cli --bin idempotency --target "$target" --target-dir target

# Licences ask that their text goes with the binary. `cargo tree` knows which packages are in it.
licences() {
    local sources package licence folder text
    sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
    cargo tree --locked --package idempotency-cli --edges normal --target "$target" --prefix none --format '{p}|{l}' |
        sed 's/ (\(proc-macro\|\*\))//g' | sort -u | while IFS='|' read -r package licence; do
        # Ours have a path after the version, and the licences of the archive.
        [[ $package != *' ('* ]] || continue
        printf '\n=== %s: %s\n' "$package" "$licence"
        folder=$(echo "$sources"/*/"${package/ v/-}")
        [[ -d $folder ]] || { echo "no sources of $package in $sources" >&2; return 1; }
        find "$folder" -maxdepth 1 -type f | grep -iE '/(licen[cs]e|copying|copyright|notice|unlicense)[^/]*$' | sort | while IFS= read -r text; do
            printf '\n--- %s\n\n' "${text##*/}"
            cat "$text"
        done || true
    done
}
cp "target/$target/release/$binary" LICENSE-APACHE LICENSE-MIT idempotency-cli/README.md idempotency-cli/CHANGELOG.md "$work/$name"
"target/$target/release/$binary" man "$work/$name/man"
mkdir "$work/$name/completions"
for shell in bash:idempotency.bash zsh:_idempotency fish:idempotency.fish powershell:_idempotency.ps1; do
    "target/$target/release/$binary" completions "${shell%:*}" >"$work/$name/completions/${shell#*:}"
done
licences >"$work/$name/LICENSES-OF-DEPENDENCIES.txt"
cp "$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html" "$work/$name/LICENSES-OF-RUST.html"
# Without the variable, macOS adds files of its own.
COPYFILE_DISABLE=1 tar -C "$work" -czf "$out/$archive" "$name"

# It writes one list beside each Cargo.toml of the workspace, so it gets a copy of the committed files.
mkdir "$work/tree"
git archive HEAD | tar -x -C "$work/tree"
(cd "$work/tree" && cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$target" --override-filename "$name.cdx")
mv "$work/tree/idempotency-cli/$name.cdx.json" "$out"

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum --algorithm 256 "$@"; fi
}
cd "$out"
sha256 "$archive" "$name.cdx.json" >"$name.sha256"

# What a user does.
sha256 --check "$name.sha256"
mkdir "$work/unpacked"
tar -C "$work/unpacked" -xzf "$archive"
said=$("$work/unpacked/$name/$binary" --version)
[[ $said == "idempotency $version" ]] || { echo "the binary of $archive says \"$said\", not version $version"; exit 1; }
ls -l "$out/$name"*
