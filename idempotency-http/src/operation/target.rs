//! The path and the query that the client sent, wherever the layer stands.
//!
//! A router hands on the part of the path that is left. Inside `Router::nest("/accounts/{account}", ..)` of axum all accounts have one
//! path, and a fingerprint of it would make a payment of one account that of another.

#[cfg(feature = "axum")]
use std::any::TypeId;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

use http::Uri;
use http::request::Parts;

use super::HttpOperation;
use crate::received::ReceivedRequest;

/// A user's function from the head of a request to the URI that the client sent.
pub(super) type UriFunction = dyn Fn(&Parts) -> Option<Uri> + Send + Sync;

/// The path and the query that the client sent.
pub(crate) struct Target<'a> {
    pub(crate) path: Cow<'a, str>,
    pub(crate) query: Cow<'a, str>,
}

impl<'a> Target<'a> {
    pub(crate) fn of_uri(uri: &'a Uri) -> Self {
        Self {
            path: uri.path().into(),
            query: uri.query().unwrap_or_default().into(),
        }
    }
}

impl HttpOperation {
    /// Returns what the client sent, as far as it is known: by the user's function, else by the platform, else by the router.
    pub(super) fn target<'a>(&self, request: &ReceivedRequest<'a>) -> Target<'a> {
        let parts = request.parts;
        if let Some(uri) = self.0.uri_from.as_ref().and_then(|find| find(parts)) {
            return Target {
                path: uri.path().to_owned().into(),
                query: uri.query().unwrap_or_default().to_owned().into(),
            };
        }
        let routed = Target::of_uri(original(parts).unwrap_or(&parts.uri));
        Target {
            path: request.path.map_or(routed.path, Cow::Borrowed),
            query: request.query.map_or(routed.query, Cow::Borrowed),
        }
    }

    /// Warns once if a request with a body of type `B` comes from an axum whose routers this program cannot ask for the path.
    pub(crate) fn check_path<B: 'static>(&self, path: Option<&str>) {
        let is_axum = std::any::type_name::<B>().ends_with("axum_core::body::Body");
        #[cfg(feature = "axum")]
        let is_axum = is_axum && TypeId::of::<B>() != TypeId::of::<axum::body::Body>();
        if is_axum
            && path.is_none()
            && self.0.uri_from.is_none()
            && !self.0.has_warned_of_path.swap(true, Ordering::Relaxed)
        {
            let remedy = if cfg!(feature = "axum") {
                "`idempotency-http` knows axum 0.8, and this is another version"
            } else {
                "switch on the feature `axum` of `idempotency-http`"
            };
            tracing::warn!(
                operation = self.0.operation.key_prefix(),
                "the path that the client sent is not known inside `Router::nest` and after a middleware that rewrites it, so two \
                 paths can be one request there: {remedy}, or write `uri_from(|parts| ..)` with axum's `OriginalUri` (this \
                 warning is logged once)"
            );
        }
    }
}

/// Returns the URI of a request before the routers of axum have changed it, if that is known.
fn original(parts: &Parts) -> Option<&Uri> {
    #[cfg(feature = "axum")]
    {
        let original = parts.extensions.get::<axum::extract::OriginalUri>();
        original.map(|original| &original.0)
    }
    #[cfg(not(feature = "axum"))]
    {
        let _ = parts;
        None
    }
}
