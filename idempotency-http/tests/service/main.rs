//! The tower layer as its users meet it: axum, tower-http, and plain services.
#![allow(clippy::unwrap_used)]

mod bodies;
mod caller;
mod common;
mod disconnect;
mod errors;
mod events;
mod hold;
mod keys;
mod properties;
mod protocol;
mod routing;
mod stack;
mod staged;
mod stored;
