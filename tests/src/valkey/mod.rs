//! Real servers of Valkey and Redis for tests, alone and as a cluster, and a proxy that breaks their connections.
//!
//! `tests/scripts/valkey.sh` installs the servers, and names the program of one in a variable. Without it each test fails.

mod cluster;
mod proxy;
mod resp;
mod server;

pub use cluster::Cluster;
pub use proxy::{Proxy, SentRequest, Tunnel, WireFault};
pub use resp::{Reply, parse};
pub use server::{Frozen, Server, program};
