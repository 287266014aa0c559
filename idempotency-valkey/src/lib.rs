//! The store of the idempotency framework on Valkey and Redis: one script, which evaluates the condition of a write and performs it.
//!
//! Functions use [`idempotency-lambda`](https://docs.rs/idempotency-lambda) with its feature `valkey`, servers `idempotency-http`.
//!
//! | item | what it is |
//! |---|---|
//! | [`ValkeyStore`], [`ValkeyStoreBuilder`] | the store and its settings |
//! | [`Durability`] | whether the server can lose a write that it has acknowledged |
//!
//! | module, the lowest first | what it does |
//! |---|---|
//! | `key` | the key of a record, its slot in a cluster |
//! | `password`, `address` | the password of a connection; what a URL says |
//! | `failure` | what an error means: whether the write may be applied, and what to do |
//! | `info` | what a server says of itself, and whether it can be used |
//! | `script`, `script.lua`, `compare.lua` | the texts of the script |
//! | `request` | a write as a run of the script |
//! | `reply` | the record in the reply of the script |
//! | `connection`, `nodes` | connects, notices a dead connection; finds the server of a key |
//! | `send` | sends a command, and notes whether it may have been applied |
//! | `store`, `scan` | the store; the listing of its records |
//! | `builder`, `config` | builds the store; its settings from variables, and its place among the kinds of stores |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod builder;
mod config;
mod connection;
mod failure;
mod info;
mod key;
mod nodes;
mod password;
mod reply;
mod request;
mod scan;
mod script;
mod send;
mod store;

pub use builder::ValkeyStoreBuilder;
pub use store::{Durability, ValkeyStore};

/// The guide's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/valkey.md")]
struct Guide;
