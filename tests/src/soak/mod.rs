//! The soak: real function processes on one table, while processes die and requests to the table go wrong.
//!
//! Clients deliver events to processes that run at different speeds. Processes are killed and stopped at random moments.
//! One request in ten to DynamoDB is throttled, fails, is lost or is late (`faults`). The soak records what each caller
//! received and which handlers ran, and [`check`] compares that with the promises. All choices follow from a seed; the
//! order in which real processes run does not.
//!
//! The function is written in Rust (`function`), or in Python with the library whose records we share
//! (`tests/interop/soak.py`).

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
