//! The settings that every operation has: a method for each, from the table of settings.

use std::time::Duration;

use idempotency_core::key::HashAlgorithm;
use idempotency_core::protocol::policy::{
    Lookup, OnError, OnInProgress, OnStoreError, OnTimeout, Steps,
};

use super::HttpOperationBuilder;

/// Writes the method of each row of the table of settings.
macro_rules! setters {
    ($($name:ident: $type:ident {
        text: $summary:literal $($text:literal)*, example: $example:literal, check: $check:expr, variable: $variable:expr,
        default: $default:literal,
    })+) => {
        impl HttpOperationBuilder {
            $(setter! { $type, $name, #[doc = concat!("Sets ", $summary)] $(#[doc = ""] #[doc = $text])* })+
        }
    };
}

/// Writes one method, unless HTTP has another one for the setting.
macro_rules! setter {
    // The method of HTTP says what it means there.
    ($type:ident, key, $($doc:tt)*) => {};
    ($type:ident, key_required, $($doc:tt)*) => {};
    // It is the fingerprint.
    ($type:ident, validate, $($doc:tt)*) => {};
    // A request has credentials in its headers, so nothing of it is stored.
    ($type:ident, store_event, $($doc:tt)*) => {};
    // What these three mean for HTTP beside that.
    ($type:ident, key_prefix, $($doc:tt)*) => {
        idempotency_expression::setter! {
            rules.settings; $type, key_prefix,
            /// Sets the whole key prefix, instead of the application's name and the path of the operation.
        }
    };
    ($type:ident, lease, $($doc:tt)*) => {
        idempotency_expression::setter! {
            rules.settings; $type, lease, $($doc)*
            ///
            /// Without `renew` set it a little longer than the longest request. If a client disconnects, the server drops the request, and
            /// its key is refused with 409 until the lease ends.
        }
    };
    ($type:ident, store_when, $($doc:tt)*) => {
        idempotency_expression::setter! {
            rules.settings; $type, store_when, $($doc)*
            ///
            /// It is evaluated on the stored response, in addition to the statuses that are stored.
        }
    };
    ($($method:tt)*) => {
        idempotency_expression::setter! { rules.settings; $($method)* }
    };
}
idempotency_expression::settings!(setters);
