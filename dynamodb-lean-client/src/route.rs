//! A route: an endpoint, and the credentials that sign the requests to it.

use aws_sdk_dynamodb::config::endpoint::Endpoint;
use aws_sdk_dynamodb::config::http::HttpRequest;
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_runtime_api::client::identity::Identity;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::endpoint::EndpointAuthScheme;

use crate::sign::{CONTENT_TYPE, Signer, credentials};

/// The name under which DynamoDB checks signatures.
const SERVICE: &str = "dynamodb";

/// The headers whose values differ with each request.
const OF_EACH_REQUEST: [&str; 4] = [
    "amz-sdk-invocation-id",
    "authorization",
    "x-amz-date",
    "x-amz-target",
];

/// An endpoint with the credentials for it.
///
/// It has no `Debug`: it contains keys.
pub(crate) struct Route {
    pub(crate) signer: Signer,
    /// A request without target, time, signature and body.
    request: HttpRequest,
}

impl Route {
    /// Returns the route to an endpoint. `region` is that of the client; the endpoint can name another one to sign for.
    ///
    /// # Errors
    ///
    /// If the endpoint has headers, which this client does not send, or is no URI.
    pub(crate) fn new(
        identity: &Identity,
        endpoint: &Endpoint,
        region: &str,
        user_agent: &str,
    ) -> Result<Self, BoxError> {
        // DynamoDB's endpoints have none. A resolver of the user's own can set some, and would rely on them.
        if endpoint.headers().next().is_some() {
            let why = "the lean client sends no headers of an endpoint: use the SDK's client";
            return Err(why.into());
        }
        let mut request = HttpRequest::new(SdkBody::empty());
        request.set_method("POST")?;
        request.uri_mut().set_endpoint(endpoint.url())?;
        let signing = signing(endpoint);
        let named = |name: &str| signing.and_then(|signing| signing.get(name)?.as_string());
        let signer = Signer::new(
            identity,
            request.uri(),
            named("signingRegion").unwrap_or(region).to_owned(),
            named("signingName").unwrap_or(SERVICE).to_owned(),
        )?;
        let token = credentials(identity)?.session_token();
        let headers = request.headers_mut();
        headers.try_insert("content-type", CONTENT_TYPE)?;
        headers.try_insert("user-agent", user_agent.to_owned())?;
        if let Some(token) = token {
            headers.try_insert("x-amz-security-token", token.to_owned())?;
        }
        // Empty values reserve the space, so that a copy need not grow when a request sets them.
        for name in OF_EACH_REQUEST {
            headers.try_insert(name, "")?;
        }
        Ok(Self { signer, request })
    }

    /// Returns a signed request. `id` is that of the call; it is not signed.
    pub(crate) fn request(
        &self,
        target: &'static str,
        body: SdkBody,
        digest: &str,
        id: &str,
        now: std::time::SystemTime,
    ) -> Result<HttpRequest, BoxError> {
        let signature = self.signer.sign(target, digest, now)?;
        let request = self.request.try_clone();
        let mut request = request.ok_or("a request without a body can be cloned")?;
        *request.body_mut() = body;
        let headers = request.headers_mut();
        headers.try_insert("amz-sdk-invocation-id", id.to_owned())?;
        headers.try_insert("x-amz-target", target)?;
        headers.try_insert("x-amz-date", signature.date)?;
        headers.try_insert("authorization", signature.authorization)?;
        Ok(request)
    }
}

/// Returns how an endpoint wants requests to be signed, if it says so.
fn signing(endpoint: &Endpoint) -> Option<&EndpointAuthScheme> {
    let mut schemes = endpoint.auth_schemes().iter();
    schemes.find(|scheme| scheme.name() == "sigv4")
}
