//! The store of the idempotency framework on Valkey and Redis: a write replaces the value that it has read, in one step.
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
//! | `fields` | the stored format: a record as the value of its key |
//! | `request`, `swap.lua` | a request on one key as a command, and its reply |
//! | `claims` | the claims that this process has made |
//! | `connection`, `nodes` | connects, notices a dead connection; finds the server of a key |
//! | `send` | sends a command, and notes whether it may have been applied |
//! | `store`, `scan` | the store; the listing of its records |
//! | `builder`, `config` | builds the store; its settings from variables, and its place among the kinds of stores |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod builder;
mod claims;
mod config;
mod connection;
mod failure;
mod fields;
mod info;
mod key;
mod nodes;
mod password;
mod request;
mod scan;
mod send;
mod store;

pub use builder::ValkeyStoreBuilder;
pub use store::{Durability, ValkeyStore};

/// The guide's example, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/valkey.md")]
struct Guide;
