//! The store on Valkey against real servers, which `tests/scripts/valkey.sh` installs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod harness;
