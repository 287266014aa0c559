//! The start of a function.
//!
//! | file | what it holds |
//! |---|---|
//! | `run` | the start in one line |
//! | `init` | the work before the first event: checks, and the connection to the store |
//! | `init_error` | the report to Lambda of a start that failed |
//! | `service` | the handler as a service with stable `errorType` names |
//! | `snapstart` | the resource that clears the local caches |

mod init;
mod init_error;
mod run;
mod service;
mod snapstart;

pub use init::init;
pub(crate) use init_error::{end_init_phase, reported};
pub use run::run;
pub use service::service;
pub use snapstart::ClearCaches;
