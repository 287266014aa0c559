//! The command `idempotency`: which key an event has, what the record under it says, and whether the table is right.
//!
//! The README says how to use it. The library exists for the binary and its tests.
//!
//! | module | what it holds |
//! |---|---|
//! | [`arguments`] | the command line |
//! | [`exit`] | exit codes |
//! | `run` | from the arguments to a command |
//! | `key` | `idempotency key`: one event, or one a line |
//! | `record` | `idempotency get` and `evict` |
//! | `table` | `idempotency table create` and `check` |
//! | `connection` | the table and the client that the variables describe |
//! | `json`, `time` | output for programs, times for people |

pub mod arguments;
pub mod exit;

mod connection;
mod json;
mod key;
mod record;
mod run;
mod table;
mod time;

pub use run::run;
