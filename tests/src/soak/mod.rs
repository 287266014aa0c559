//! The soak: real function processes on one table, while processes die and requests to the table go wrong.
//!
//! Clients deliver events to processes of different slowness. Processes are killed and stopped at random moments, and one
//! request in ten to DynamoDB is throttled, fails, is lost or is late (`faults`). What callers are given and what
//! handlers do is noted and checked ([`check`]). The choices follow from a seed, as far as real processes allow: which of
//! them is quicker is left to the machine.
//!
//! The function is in Rust (`function`), or in Python with the library whose records are shared (`tests/interop/soak.py`).

mod chance;
mod check;
mod client;
mod faults;
mod function;
mod plan;
mod processes;
mod report;
mod run;

pub use check::{Broken, check};
pub use function::{ROLE, serve};
pub use plan::Plan;
pub use processes::Side;
pub use report::Report;
pub use run::{History, run};
