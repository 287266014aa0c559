//! A request through an Application Load Balancer.

use serde_json::{Value, json};

use super::api_gateway_v1::last_of_each;
use super::request::{Request, encode};
use super::value::object;
use super::{ACCOUNT, REGION};

const HOST: &str = "shop-1334523864.eu-central-1.elb.amazonaws.com";

/// Starts a request through an Application Load Balancer.
///
/// The path may have a query. As the load balancer does, the event has names and values of the query in their encoded form.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events;
/// use serde_json::json;
///
/// let request = events::alb("POST", "/payments").header("Idempotency-Key", "k-1").json(&json!({"amount": 42}));
/// assert_eq!(request.to_value()["headers"]["idempotency-key"], "k-1");
/// let event = request.multi_value_headers().to_value();
/// assert_eq!(event["multiValueHeaders"]["idempotency-key"], json!(["k-1"]));
/// ```
pub fn alb(method: impl Into<String>, path: impl Into<String>) -> Alb {
    Alb {
        request: Request::new(method.into(), path.into()),
        is_multi_value: false,
        changes: Vec::new(),
    }
}

/// A request through an Application Load Balancer. [`alb`] makes it.
#[derive(Clone, Debug)]
#[must_use]
pub struct Alb {
    request: Request,
    is_multi_value: bool,
    changes: Vec<(String, Value)>,
}

http_event!(Alb);

impl Alb {
    /// Writes the event as for a target group with `lambda.multi_value_headers.enabled`.
    ///
    /// It has `multiValueHeaders` and `multiValueQueryStringParameters` instead of the fields with one value.
    pub fn multi_value_headers(mut self) -> Self {
        self.is_multi_value = true;
        self
    }

    fn render(&self) -> Value {
        let request = &self.request;
        let headers = request.headers(HOST);
        let headers: Vec<_> = headers
            .into_iter()
            .map(|(name, values)| (name.to_ascii_lowercase(), values))
            .collect();
        let query = request.query_lists().into_iter();
        let encoded = |values: Vec<String>| values.iter().map(|value| encode(value)).collect();
        let query: Vec<(String, Vec<String>)> = query
            .map(|(name, values)| (encode(&name), encoded(values)))
            .collect();
        let (body, is_base64) = request.body();
        let group = format!(
            "arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT}:targetgroup/shop/6d0ecf831eec9f09"
        );
        let mut event = json!({
            "requestContext": {"elb": {"targetGroupArn": group}},
            "httpMethod": request.method,
            "path": request.path,
            "body": body.unwrap_or_default(),
            "isBase64Encoded": is_base64,
        });
        if self.is_multi_value {
            event["multiValueHeaders"] = object(headers);
            event["multiValueQueryStringParameters"] = object(query);
        } else {
            event["headers"] = object(last_of_each(&headers));
            event["queryStringParameters"] = object(last_of_each(&query));
        }
        event
    }
}
