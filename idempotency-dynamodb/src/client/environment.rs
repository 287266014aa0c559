//! What the environment says about connections and credentials, for error texts.

use hyper_util::client::proxy::matcher::Matcher;

/// The variable that names a file with certificate authorities.
pub(crate) const BUNDLE: &str = "AWS_CA_BUNDLE";

/// Returns the proxy that the environment names for this endpoint.
pub(crate) fn proxy(endpoint: &str) -> Option<String> {
    let endpoint = endpoint.parse().ok()?;
    let proxy = Matcher::from_env().intercept(&endpoint)?;
    Some(proxy.uri().to_string())
}

/// Returns the profile that `AWS_PROFILE` names, for a text. An empty one counts as not set, as for the SDK.
pub(crate) fn profile() -> Option<String> {
    let profile = std::env::var("AWS_PROFILE").ok()?;
    let profile = profile.trim().escape_debug().to_string();
    (!profile.is_empty()).then_some(profile)
}
