//! Invokes a function: one signed POST to Lambda's Invoke API.
//!
//! It is sent once, and never again after a failure: the handler may have run. The SDK's client for Lambda would compile a second
//! SDK for this one request; credentials, addresses, signatures and TLS are those of the SDK's own parts.

use std::error::Error as StdError;
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::config::ProvideCredentials as _;
use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::error::{BoxError, ConnectorError};
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SigningParams, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, HttpConnectorSettings};
use aws_smithy_runtime_api::client::identity::Identity;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use idempotency_core::key::Json;

use crate::connection::{Service, causes, chain};
use crate::exit::{Exit, Failure};
use crate::terminal::visible;

/// The timeout to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout of the response: a little more than a function may run.
const READ_TIMEOUT: Duration = Duration::from_secs(16 * 60);

/// The headers of every invocation: the caller waits for the response.
const HEADERS: [(&str, &str); 2] = [
    ("content-type", "application/json"),
    ("x-amz-invocation-type", "RequestResponse"),
];

/// The response of Lambda to an invocation. It has no `Debug`: the payload can contain personal data.
pub(crate) struct InvokeReply {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The version of the function that ran.
    pub(crate) version: Option<String>,
    /// `Handled` or `Unhandled` if the function returned an error; otherwise `None`.
    pub(crate) function_error: Option<String>,
    /// The response, or the error as a JSON object.
    pub(crate) payload: String,
}

/// Returns the text of a member of a JSON object; `None` if it is missing or not a string.
pub(crate) fn member(payload: &str, name: &str) -> Option<String> {
    let Ok(Json::Object(members)) = Json::parse(payload) else {
        return None;
    };
    Some(members.get(name.as_bytes())?.as_str()?.to_owned())
}

/// Invokes the function with this event, in the region of the configuration.
///
/// # Errors
///
/// If Lambda did not accept the invocation, or if there is no response. The text says whether the function may have run.
pub(crate) async fn invoke(
    config: &SdkConfig,
    function: &str,
    event: &str,
) -> Result<InvokeReply, Failure> {
    let failed = |text: String| {
        let message = format!("the function `{function}` was not invoked: {text}");
        Failure::new(Exit::Failed, message)
    };
    let request = request(config, function, event).await;
    let request = request.map_err(|error| failed(chain(&*error)))?;
    let mut settings = HttpConnectorSettings::builder();
    settings.set_connect_timeout(Some(CONNECT_TIMEOUT));
    settings.set_read_timeout(Some(READ_TIMEOUT));
    let connector = Connector::builder()
        .connector_settings(settings.build())
        .proxy_config(ProxyConfig::from_env())
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build();
    let doubtful = |error: &(dyn StdError + 'static)| {
        let message = format!(
            "the function `{function}` did not respond, and it may have run: look at its record with `idempotency get`: {}",
            chain(error)
        );
        Failure::new(Exit::Failed, message)
    };
    let response = connector.call(request).await;
    let mut response = response.map_err(|error| {
        if never_connected(&error) {
            return failed(chain(&error));
        }
        doubtful(&error)
    })?;
    let payload = body(&mut response).await;
    let payload = payload.map_err(|error| doubtful(&*error))?;
    let header = |name| response.headers().get(name).map(str::to_owned);
    let status = response.status().as_u16();
    if !response.status().is_success() {
        let error_type = header("x-amzn-errortype");
        // Without a type it is the response of a proxy, which can have waited for Lambda.
        let is_of_lambda = error_type.is_some();
        let refusal = refusal(status, error_type, &payload);
        // An error of the service itself can follow a run.
        return Err(match status {
            400..500 if is_of_lambda => failed(refusal),
            _ => doubtful(&*BoxError::from(refusal)),
        });
    }
    Ok(InvokeReply {
        status,
        version: header("x-amz-executed-version"),
        function_error: header("x-amz-function-error"),
        payload,
    })
}

/// Returns true if the request was certainly not sent, because there was no connection.
fn never_connected(error: &ConnectorError) -> bool {
    let mut causes = causes(error);
    let of_client =
        causes.find_map(|error| error.downcast_ref::<hyper_util::client::legacy::Error>());
    of_client.is_some_and(|error| error.is_connect())
}

/// Explains a response of Lambda without a result of the function.
fn refusal(status: u16, error_type: Option<String>, payload: &str) -> String {
    let code = error_type.unwrap_or_default();
    // A colon and a URL can follow the code.
    let code = code.split(':').next().unwrap_or_default();
    let message = member(payload, "Message").or_else(|| member(payload, "message"));
    let message = message.unwrap_or_else(|| "no message".to_owned());
    let message = visible(&message);
    let remedy = match code {
        "AccessDeniedException" => "; allow lambda:InvokeFunction",
        "ResourceNotFoundException" => "; check its name and the region",
        _ => "",
    };
    let code = match code {
        "" => String::new(),
        code => format!(", {code}"),
    };
    format!("the response has the status {status}{code}: {message}{remedy}")
}

/// Returns the signed request.
async fn request(config: &SdkConfig, function: &str, event: &str) -> Result<HttpRequest, BoxError> {
    let region = config.region().ok_or("no region is set")?;
    let endpoint = Service::Lambda.endpoint(config).await?;
    let credentials = config.credentials_provider();
    let credentials = credentials.ok_or("there are no credentials")?;
    let identity = credentials.provide_credentials().await?.into();
    let uri = uri(&endpoint, function);
    signed(&uri, event, &identity, region.as_ref(), SystemTime::now())
}

/// Returns the URI that invokes a function at this endpoint.
fn uri(endpoint: &str, function: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    let mut uri = format!("{endpoint}/2015-03-31/functions/");
    for byte in function.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri.push_str("/invocations");
    uri
}

fn signed(
    uri: &str,
    event: &str,
    identity: &Identity,
    region: &str,
    now: SystemTime,
) -> Result<HttpRequest, BoxError> {
    let params = v4::SigningParams::builder()
        .identity(identity)
        .region(region)
        .name("lambda")
        .time(now)
        .settings(SigningSettings::default())
        .build()?;
    let body = SignableBody::Bytes(event.as_bytes());
    let signable = SignableRequest::new("POST", uri, HEADERS.into_iter(), body)?;
    let (instructions, _) = sign(signable, &SigningParams::V4(params))?.into_parts();
    let mut request = HttpRequest::new(SdkBody::from(event));
    request.set_method("POST")?;
    request.set_uri(uri)?;
    let headers = request.headers_mut();
    for (name, value) in HEADERS.into_iter().chain(instructions.headers()) {
        headers.try_insert(name.to_owned(), value.to_owned())?;
    }
    let agent = concat!("idempotency-cli/", env!("CARGO_PKG_VERSION"));
    headers.try_insert("user-agent", agent)?;
    Ok(request)
}

/// Reads the body of a response.
async fn body(response: &mut HttpResponse) -> Result<String, BoxError> {
    let body = std::mem::replace(response.body_mut(), SdkBody::taken());
    let bytes = ByteStream::new(body).collect().await?.into_bytes();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use aws_sdk_dynamodb::config::Credentials;

    use super::*;

    #[test]
    fn a_request_is_signed_for_lambda_and_has_this_form() {
        let credentials =
            Credentials::new("AKID", "secret", Some("session".to_owned()), None, "test");
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let uri = "https://lambda.eu-central-1.amazonaws.com/2015-03-31/functions/charge%3Alive/invocations";
        let event = r#"{"order_id": 7}"#;
        let request = signed(uri, event, &credentials.into(), "eu-central-1", now).unwrap();
        assert_eq!((request.method(), request.uri()), ("POST", uri));
        assert_eq!(request.body().bytes(), Some(event.as_bytes()));
        let headers = request.headers();
        assert_eq!(
            headers.get("x-amz-invocation-type"),
            Some("RequestResponse")
        );
        assert_eq!(headers.get("x-amz-date"), Some("20231114T221320Z"));
        assert_eq!(headers.get("x-amz-security-token"), Some("session"));
        let authorization = headers.get("authorization").unwrap();
        let start = "AWS4-HMAC-SHA256 Credential=AKID/20231114/eu-central-1/lambda/aws4_request, SignedHeaders=content-type;host;\
                     x-amz-date;x-amz-invocation-type;x-amz-security-token, Signature=";
        assert!(authorization.starts_with(start), "{authorization}");
    }

    #[test]
    fn a_refusal_of_lambda_has_its_code_its_message_and_a_remedy() {
        let code = |code: &str| Some(code.to_owned());
        let not_found = code("ResourceNotFoundException:http://internal.amazon.com/");
        let unknown = r#"{"Type":"User","Message":"Function not found: charge"}"#;
        let denied = r#"{"message":"not authorized"}"#;
        for (said, expected) in [
            (
                refusal(404, not_found, unknown),
                "404, ResourceNotFoundException: Function not found: charge; check its name and the region",
            ),
            (
                refusal(403, code("AccessDeniedException"), denied),
                "403, AccessDeniedException: not authorized; allow lambda:InvokeFunction",
            ),
            (refusal(502, None, "<html>"), "502: no message"),
        ] {
            let expected = format!("the response has the status {expected}");
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn a_name_an_alias_and_an_arn_become_one_segment_of_the_path() {
        let arn = "arn:aws:lambda:eu-central-1:123456789012:function:charge";
        for (function, segment) in [
            ("charge", "charge".to_owned()),
            ("charge:live", "charge%3Alive".to_owned()),
            (arn, arn.replace(':', "%3A")),
            ("a/b", "a%2Fb".to_owned()),
        ] {
            let expected = format!("http://127.0.0.1:1/2015-03-31/functions/{segment}/invocations");
            assert_eq!(uri("http://127.0.0.1:1/", function), expected);
            assert_eq!(uri("http://127.0.0.1:1", function), expected);
        }
    }
}
