//! The store of the idempotency framework on PostgreSQL: statements that insert, or change a row for which a condition holds.
//!
//! Functions use [`idempotency-lambda`](https://docs.rs/idempotency-lambda) with its feature `postgres`, servers `idempotency-http`.
//!
//! | item | what it is |
//! |---|---|
//! | [`MIGRATION`] | creates the table |
//! | [`PostgresStore`], [`PostgresStoreBuilder`] | the store and its settings |
//! | [`pool_options`] | the options of the store's pool, for a pool of the program |
//! | [`Begin`] | the transaction of a handler, which commits with its response |
//!
//! | module, the lowest first | what it does |
//! |---|---|
//! | `columns`, `table` | the columns, and the form of each value in them; the name of the table, and its migration |
//! | `statement` | the statements; `statement::condition` the conditions of the protocol as SQL |
//! | `failure` | what an error means: whether the write may be applied, and what to do |
//! | `transaction` | the transaction of a handler |
//! | `connection` | opens connections, notices a dead one, executes statements |
//! | `check` | checks the server, the role and the table before the first claim |
//! | `store` | the store, and the listing of its records |
//! | `operator` | creates the table, looks at it, and deletes expired rows |
//! | `builder`, `kind` | builds the store; its settings from variables, and its place among the kinds of stores |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod check;
mod columns;
mod connection;
mod failure;
mod kind;
mod limits;
mod operator;
mod statement;
mod store;
mod table;
mod transaction;

pub use builder::{PostgresStoreBuilder, pool_options};
#[doc(hidden)]
pub use check::{TableFinding, TableVerdict};
pub use sqlx;
pub use store::PostgresStore;
pub use table::MIGRATION;
pub use transaction::{Begin, PostgresTransaction};

/// The guide's page, compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/postgres.md")]
struct Guide;
