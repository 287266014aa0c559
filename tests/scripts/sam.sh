#!/usr/bin/env bash
# Checks that template.yaml is valid and that `sam build` builds a binary for each function that Lambda can start.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/tools.sh

fail() { echo "sam.sh: $*" >&2; exit 1; }

# The glibc of Lambda's provided.al2023. A binary that needs a newer one does not start.
glibc_of_runtime=2.34

architecture=arm64 machine=AArch64
if ! timeout 120 rustup target add aarch64-unknown-linux-gnu; then
    architecture=x86_64 machine=X86-64
    echo "NOTE: the aarch64 standard library cannot be installed here; building for $architecture instead of the template's default"
fi

sam validate --lint --template template.yaml

# cargo-lambda builds with `panic = "abort"` unless the workspace sets it. With "abort", a panic would not release its claim.
grep -A9 '^\[profile\.release\]' Cargo.toml | grep -q '^panic = "unwind"' ||
    fail 'Cargo.toml needs panic = "unwind" under [profile.release]: cargo-lambda sets "abort" otherwise'

# Deployed functions are optimized. Here that would take a minute more for each of five functions, and check
# nothing more.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=0
sam build --template template.yaml --build-in-source --parameter-overrides "Architecture=$architecture"

for function in Payment Http Orders Ledger Shipping; do
    binary=".aws-sam/build/$function/bootstrap"
    [[ -x $binary ]] || fail "$function was not built: $binary is missing"
    header=$(readelf -h "$binary")
    [[ $header == *"$machine"* ]] || fail "$function is not built for $architecture"
    newest=$(readelf --wide --dyn-syms "$binary" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1)
    [[ -n $newest && $(printf '%s\n' "$newest" "$glibc_of_runtime" | sort -V | tail -1) == "$glibc_of_runtime" ]] ||
        fail "$function needs glibc $newest; the runtime has $glibc_of_runtime"
    echo "$function: $architecture, $(du -h "$binary" | cut -f1), glibc $newest"
done
