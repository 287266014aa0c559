//! Configuration: settings from the attribute or builder, variables from the environment, defaults; the first wins.

mod error;
mod key_required;
mod settings;
mod variables;

pub use error::ConfigurationError;
pub use key_required::{KeyRequired, UnknownKeyRequired};
pub use settings::Settings;
pub use variables::{UnknownVariable, Variables};
