#!/usr/bin/env bash
# rustdoc with its unstable features, for `RUSTDOC=`. If Cargo itself saw RUSTC_BOOTSTRAP, it would run the build scripts of proc-macro2
# and others again, and compile nearly every dependency again, here and in the next step without it.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
