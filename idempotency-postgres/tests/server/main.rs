//! The store against real servers, which `tests/scripts/postgres.sh` installs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod conformance;
