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
    ($($method:tt)*) => {
        idempotency_expression::setter! { rules.settings; $($method)* }
    };
}
idempotency_expression::settings!(setters);
