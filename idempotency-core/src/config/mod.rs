//! The configuration of an operation: settings of the attribute or builder, then environment variables, then defaults.

mod error;
mod key_required;
mod settings;
mod value;
mod variables;

pub use crate::key::{HashAlgorithm, UnknownHashAlgorithm};
pub use error::ConfigurationError;
pub use key_required::{KeyRequired, UnknownKeyRequired};
pub use settings::Settings;
pub use variables::{UnknownVariable, Variables};
