//! Makes the clients of a store.
//!
//! | module | what it does |
//! |---|---|
//! | `sdk` | makes the SDK's client, with timeouts and retries that suit a Lambda function |
//! | `lean` | the lean client, on the crate `dynamodb-lean-client` |
//! | `http` | the HTTP client of both |
//! | `unhurried` | gives credentials of a profile the time that they need |
//! | `environment` | what the environment says about connections, for error texts |

pub(crate) mod environment;
#[cfg(any(feature = "rustls-ring", feature = "rustls-aws-lc"))]
mod http;
mod lean;
mod sdk;
#[cfg(feature = "profiles")]
mod unhurried;

#[cfg(any(feature = "rustls-ring", feature = "rustls-aws-lc"))]
pub use http::http_client;
pub use lean::LeanClient;
pub(crate) use sdk::{authorities, check_region, is_set, no_region};
pub use sdk::{default_client, sdk_client};
