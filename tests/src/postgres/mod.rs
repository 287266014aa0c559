//! Real servers of PostgreSQL for tests: the one that the script has started, and some that a test starts and kills.
//!
//! `tests/scripts/postgres.sh` installs them, and says in variables what it has started. Without it each test fails.

mod messages;
mod server;

pub(crate) use messages::FRAMES;
pub use server::{
    Server, database, database_url, empty_database, execute, server, store, told, url,
};
