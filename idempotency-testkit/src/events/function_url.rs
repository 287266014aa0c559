//! A request to a function URL.

use serde_json::{Value, json};

use super::request::Request;
use super::value::put;
use super::{ACCOUNT, TIME, TIME_OF_REQUEST};

const HOST: &str = "abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-central-1.on.aws";
const URL_ID: &str = "abcdefghijklmnopqrstuvwxyz012345";

/// Starts a request to a function URL.
///
/// The path may have a query. Without [`iam_user`](FunctionUrl::iam_user) the caller is anonymous.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events;
///
/// let event = events::function_url("POST", "/").iam_user("checkout").to_value();
/// assert_eq!(
///     event["requestContext"]["authorizer"]["iam"]["userArn"],
///     "arn:aws:iam::123456789012:user/checkout"
/// );
/// ```
pub fn function_url(method: impl Into<String>, path: impl Into<String>) -> FunctionUrl {
    FunctionUrl {
        request: Request::new(method.into(), path.into()),
        request_id: "e1506fd5-9e7b-434f-bd42-4f8fa224b599".to_owned(),
        iam_user: None,
        changes: Vec::new(),
    }
}

/// A request to a function URL. [`function_url`] makes it.
#[derive(Clone, Debug)]
#[must_use]
pub struct FunctionUrl {
    request: Request,
    request_id: String,
    iam_user: Option<String>,
    changes: Vec<(String, Value)>,
}

http_event!(FunctionUrl);

impl FunctionUrl {
    /// Sets the IAM user that signed the request: `requestContext.authorizer.iam`.
    pub fn iam_user(mut self, name: impl Into<String>) -> Self {
        self.iam_user = Some(name.into());
        self
    }

    /// Sets the id that Lambda gave to the request. A retry of a client has another id.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = id.into();
        self
    }

    fn render(&self) -> Value {
        let request = &self.request;
        let (headers, cookies) = request.headers_and_cookies(HOST);
        let (body, is_base64) = request.body();
        let account = match self.iam_user {
            Some(_) => ACCOUNT,
            None => "anonymous",
        };
        let mut event = json!({
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": request.path,
            "rawQueryString": request.raw_query(),
            "headers": headers,
            "requestContext": {
                "accountId": account,
                "apiId": URL_ID,
                "domainName": HOST,
                "domainPrefix": URL_ID,
                "http": request.http_context(HOST, &request.path),
                "requestId": self.request_id,
                "routeKey": "$default",
                "stage": "$default",
                "time": TIME_OF_REQUEST,
                "timeEpoch": TIME,
            },
            "isBase64Encoded": is_base64,
        });
        put(&mut event, "cookies", json!(cookies));
        put(&mut event, "queryStringParameters", request.joined_query());
        put(&mut event, "body", json!(body));
        if let Some(user) = &self.iam_user {
            event["requestContext"]["authentication"] = Value::Null;
            event["requestContext"]["authorizer"] = json!({"iam": {
                "accessKey": "AKIAIOSFODNN7EXAMPLE",
                "accountId": ACCOUNT,
                "callerId": "AIDACKCEVSQ6C2EXAMPLE",
                "cognitoIdentity": null,
                "principalOrgId": null,
                "userArn": format!("arn:aws:iam::{ACCOUNT}:user/{user}"),
                "userId": "AIDACKCEVSQ6C2EXAMPLE",
            }});
        }
        event
    }
}
