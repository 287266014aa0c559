//! The tower layer as its users meet it: axum, tower-http, and plain services.

mod common;
mod protocol;
