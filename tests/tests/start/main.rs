//! Mistakes in key prefixes, which stop the start. No other test can start in a program with such a mistake.
#![allow(clippy::unwrap_used)]

mod init;
mod prefixes;
