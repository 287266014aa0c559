//! The engine: drives one call through the protocol.
//!
//! | module | what it holds |
//! |---|---|
//! | `driver` | performs the effects that the protocol asks for |
//! | `request` | sends requests to the store |
//! | `call` | the call of a handler |
//! | `run` | one run of the handler: its start, and what it leaves |
//! | `handler` | runs the handler, and says what its output means |
//! | `renewing` | renews the lease of a run while its handler runs |
//! | `finish` | turns the end of a call into the caller's result |
//! | `staging` | the writes that a handler stages while it runs |
//! | `lookup` | looks at the record of a key, or deletes it, without a run |
//! | `unprotected` | runs a handler without protection, and applies what it staged |
//! | `single_flight` | duplicates in one process share the work of one call |
//! | `backend` | store, clock, randomness and cache of a process |
//! | `codec` | how a response becomes JSON text and back |
//! | `proof` | which types prove that a response can be read back |

mod backend;
mod call;
mod codec;
mod driver;
mod finish;
mod handler;
mod lookup;
mod proof;
mod renewing;
mod request;
mod run;
mod single_flight;
mod staging;
mod unprotected;

pub use backend::Backend;
pub use call::{Call, CallTransaction, Step, Token, UndoableStep, run_without_claim};
pub use codec::{Codec, Errors, Written};
pub(crate) use driver::Driver;
pub(crate) use handler::StoreWhen;
pub use staging::StageError;
pub(crate) use unprotected::Unprotected;
