#!/usr/bin/env bash
# `cargo doc` with the unstable features of rustdoc, for all crates at once: one by one each compiles most dependencies anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Documentation links nothing, and the C code of AWS-LC takes 40 s of CPU time: this is what its build script would print.
build="target.$(rustc --print host-tuple).aws_lc_$(sed -n '/^name = "aws-lc-sys"$/{n;s/^version = "\(.*\)"$/\1/p}' Cargo.lock | tr . _)"
RUSTDOC="$PWD/tests/scripts/unstable-rustdoc.sh" exec cargo doc --no-deps --all-features --workspace \
    --config "$build.rustc-cfg=['universal']" --config "$build.include='none'" "$@"
