//! Real servers of Valkey and Redis for tests, alone and as a cluster.
//!
//! `tests/scripts/valkey.sh` installs the servers, and names the program of one in a variable. Without it each test fails.

mod cluster;
pub mod record;
mod resp;
mod server;
mod tunnel;

pub use cluster::Cluster;
pub(crate) use resp::FRAMES;
pub use resp::{Reply, parse};
pub use server::{Frozen, Server, program};
pub use tunnel::Tunnel;
