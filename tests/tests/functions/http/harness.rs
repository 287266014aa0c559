//! A process of a function with a table of its own.
//!
//! The sources of requests: how each writes a request, and what of a response it reads.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use idempotency_testkit::events;
use idempotency_testkit::lambda::{FunctionProcess, InvokeError, LocalLambda};
use idempotency_tests::process::{Claim, claims, start_with};
use serde_json::Value;

/// Returns the sources whose events a function takes.
pub(crate) fn sources(role: &str) -> &'static [Source] {
    match role {
        "v1" => &[Source::ApiGatewayV1],
        "v2" => &[Source::ApiGatewayV2],
        "alb" => &[Source::Alb, Source::AlbMultiValue],
        "url" => &[Source::FunctionUrl],
        _ => &[
            Source::ApiGatewayV1,
            Source::ApiGatewayV2,
            Source::Alb,
            Source::AlbMultiValue,
            Source::FunctionUrl,
        ],
    }
}

/// A function of one role with a table of its own.
pub(crate) struct Harness {
    pub(crate) role: &'static str,
    pub(crate) database: EmbeddedDynamoDb,
    pub(crate) lambda: LocalLambda,
    pub(crate) process: FunctionProcess,
}

impl Harness {
    pub(crate) async fn start(role: &'static str) -> Self {
        Self::start_with(role, &[]).await
    }

    pub(crate) async fn start_with(role: &'static str, variables: &[(&str, &str)]) -> Self {
        let concurrency = if role == "concurrent" { 4 } else { 1 };
        let started = start_with(format!("http/{role}"), |function| {
            function
                .timeout(Duration::from_secs(900))
                .concurrency(concurrency)
                .envs(variables.iter().copied())
        });
        let (database, lambda) = started.await.unwrap();
        let process = lambda.start_process().await.unwrap();
        Self {
            role,
            database,
            lambda,
            process,
        }
    }

    /// Sends a request to the process. Returns what the client gets.
    pub(crate) async fn send(&self, source: Source, request: &Request) -> Received {
        match self.try_send(source, request).await {
            Ok(received) => received,
            Err(error) => panic!("{} {source:?} {request:?}: {error}", self.role),
        }
    }

    /// Sends a request to the process. Returns what the client gets, or the error of the function.
    pub(crate) async fn try_send(
        &self,
        source: Source,
        request: &Request,
    ) -> Result<Received, InvokeError> {
        let reply = self.process.invoke(request.event(source)).await?;
        Ok(Received::read(source, &reply.json().unwrap()))
    }

    /// Returns every claim that the table received.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        claims(&self.database)
    }

    /// Returns the number of records that hold their key. A layer that may have made the error leaves a mark in a record that it frees.
    pub(crate) async fn held(&self) -> usize {
        let items = self.database.items("idempotency").await.unwrap();
        let held = items.iter().filter(|item| !item.contains_key("failure"));
        held.count()
    }
}

/// What sends events to the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    ApiGatewayV1,
    ApiGatewayV2,
    Alb,
    AlbMultiValue,
    FunctionUrl,
}

/// A request of a client.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// The user that the source has authenticated.
    pub(crate) user: Option<&'static str>,
}

impl Request {
    /// Returns a POST request with a key, from the user `u-1`.
    pub(crate) fn post(path: &'static str, key: &str) -> Self {
        Self {
            method: "POST",
            path,
            headers: vec![("Idempotency-Key", key.to_owned())],
            body: br#"{"amount": 1, "currency": "EUR"}"#.to_vec(),
            user: Some("u-1"),
        }
    }

    pub(crate) fn of(mut self, user: Option<&'static str>) -> Self {
        self.user = user;
        self
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// Returns the event of the source.
    pub(crate) fn event(&self, source: Source) -> String {
        let (method, path) = (self.method, self.path);
        let event = match source {
            Source::ApiGatewayV1 => events::api_gateway_v1(method, path),
            Source::ApiGatewayV2 => events::api_gateway_v2(method, path),
            Source::FunctionUrl => events::function_url(method, path),
            Source::Alb => events::alb(method, path),
            Source::AlbMultiValue => events::alb(method, path).multi_value_headers(),
        };
        let mut event = match (source, self.user) {
            (_, None) => event,
            (Source::ApiGatewayV1 | Source::ApiGatewayV2, Some(user)) => event.claim("sub", user),
            (Source::FunctionUrl, Some(user)) => event.iam_user(user),
            (_, Some(user)) => event.header("X-Amzn-Oidc-Identity", user),
        };
        event = event.header("Content-Type", "application/json");
        for (name, value) in &self.headers {
            event = event.header(*name, value.as_str());
        }
        let event = match std::str::from_utf8(&self.body) {
            Ok(text) => event.body(text),
            Err(_) => event.bytes(self.body.clone()),
        };
        event.to_string()
    }
}

/// What a client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) status: u64,
    /// Without `content-length`, which the source writes.
    pub(crate) headers: BTreeMap<String, Vec<String>>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    /// Reads the function's response as the source does.
    pub(crate) fn read(source: Source, response: &Value) -> Self {
        let mut headers = match source {
            Source::ApiGatewayV1 => {
                let mut merged = lists(&response["headers"]);
                merged.extend(lists(&response["multiValueHeaders"]));
                merged
            }
            Source::AlbMultiValue => lists(&response["multiValueHeaders"]),
            Source::Alb | Source::ApiGatewayV2 | Source::FunctionUrl => lists(&response["headers"]),
        };
        if matches!(source, Source::Alb | Source::AlbMultiValue) {
            let description = response["statusDescription"].as_str().unwrap();
            let status = response["statusCode"].to_string();
            assert!(description.starts_with(&status), "{response}");
        }
        if matches!(source, Source::ApiGatewayV2 | Source::FunctionUrl) {
            assert!(!headers.contains_key("set-cookie"), "{response}");
            let cookies = response["cookies"].as_array().cloned().unwrap_or_default();
            let cookies: Vec<_> = cookies.iter().map(text).collect();
            if !cookies.is_empty() {
                headers.insert("set-cookie".to_owned(), cookies);
            }
        }
        if let Some(length) = headers.remove("content-length") {
            assert_eq!(length.len(), 1, "{response}");
        }
        let body = response["body"].as_str().unwrap_or_default();
        Self {
            status: response["statusCode"].as_u64().unwrap(),
            headers,
            body: if response["isBase64Encoded"] == true {
                STANDARD.decode(body).unwrap()
            } else {
                body.as_bytes().to_vec()
            },
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let values = self.headers.get(name)?;
        assert_eq!(values.len(), 1, "{name}: {values:?}");
        Some(&values[0])
    }

    /// Returns the names of the headers.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.headers.keys().map(String::as_str).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Returns the headers of a field, with one value or a list for each.
fn lists(field: &Value) -> BTreeMap<String, Vec<String>> {
    let headers = field.as_object().cloned().unwrap_or_default();
    let headers = headers.into_iter().map(|(name, value)| {
        let values = match &value {
            Value::Array(values) => values.iter().map(text).collect(),
            value => vec![text(value)],
        };
        (name.to_ascii_lowercase(), values)
    });
    headers.collect()
}
