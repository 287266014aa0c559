//! The tower layer as its users meet it: axum, tower-http, and plain services.
#![allow(clippy::unwrap_used)]

mod bodies;
mod common;
mod errors;
mod events;
mod keys;
mod stack;
