//! What exists once in a process: its variables, the global backend, and the list of local caches.
//!
//! | file | what it holds |
//! |---|---|
//! | `variables` | the copy of the environment variables |
//! | `checks` | the checks of all variables, and whether protection is switched off |
//! | `default_store` | the store that the variables name |
//! | `backend` | the global backend, and how a backend is made from a store |
//! | `caches` | every local cache, to be cleared together |

mod backend;
mod caches;
mod checks;
mod default_store;
mod variables;

#[cfg(feature = "http")]
pub(crate) use backend::backend_without_store;
pub use backend::{backend_over, set_global_backend};
pub(crate) use backend::{existing_backend, global_backend};
pub(crate) use caches::clear_caches;
pub(crate) use checks::{check_variables, configuration_error, is_disabled, note_overridden};
pub(crate) use variables::variables;
