//! A request through an HTTP API of API Gateway: payload format 2.0.

use serde_json::{Value, json};

use super::request::Request;
use super::value::{object, object_or_null, put};
use super::{ACCOUNT, TIME, TIME_OF_REQUEST};

const HOST: &str = "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com";

/// Starts a request through an HTTP API of API Gateway, in payload format 2.0.
///
/// The path may have a query.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events;
/// use serde_json::json;
///
/// let event = events::api_gateway_v2("POST", "/payments?dry=1")
///     .header("Idempotency-Key", "k-1")
///     .json(&json!({"amount": 42}))
///     .to_value();
/// assert_eq!(event["headers"]["idempotency-key"], "k-1");
/// assert_eq!(event["queryStringParameters"], json!({"dry": "1"}));
/// ```
pub fn api_gateway_v2(method: impl Into<String>, path: impl Into<String>) -> ApiGatewayV2 {
    ApiGatewayV2 {
        request: Request::new(method.into(), path.into()),
        route: None,
        stage: "$default".to_owned(),
        request_id: "JKJaXmPLvHcESHA=".to_owned(),
        path_parameters: Vec::new(),
        stage_variables: Vec::new(),
        authorizer: Authorizer::None,
        changes: Vec::new(),
    }
}

/// A request through an HTTP API of API Gateway. [`api_gateway_v2`] makes it.
#[derive(Clone, Debug)]
#[must_use]
pub struct ApiGatewayV2 {
    request: Request,
    route: Option<String>,
    stage: String,
    request_id: String,
    path_parameters: Vec<(String, String)>,
    stage_variables: Vec<(String, String)>,
    authorizer: Authorizer,
    changes: Vec<(String, Value)>,
}

/// The one authorizer of a route.
#[derive(Clone, Debug)]
enum Authorizer {
    None,
    Jwt(Vec<(String, String)>),
    Lambda(Vec<(String, Value)>),
    Iam(String),
}

api_gateway_event!(ApiGatewayV2);

impl ApiGatewayV2 {
    /// Adds a claim of the caller's token: `requestContext.authorizer.jwt.claims`.
    pub fn claim(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let mut claims = match self.authorizer {
            Authorizer::Jwt(claims) => claims,
            _ => Vec::new(),
        };
        claims.push((name.into(), value.into()));
        self.authorizer = Authorizer::Jwt(claims);
        self
    }

    /// Adds a field of a Lambda authorizer's context: `requestContext.authorizer.lambda`.
    pub fn authorizer(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        let mut fields = match self.authorizer {
            Authorizer::Lambda(fields) => fields,
            _ => Vec::new(),
        };
        fields.push((name.into(), value.into()));
        self.authorizer = Authorizer::Lambda(fields);
        self
    }

    /// Sets the IAM user that signed the request: `requestContext.authorizer.iam`.
    pub fn iam_user(mut self, name: impl Into<String>) -> Self {
        self.authorizer = Authorizer::Iam(name.into());
        self
    }

    /// Sets the route, such as `POST /payments/{id}`. By default it is method and path.
    pub fn route(mut self, key: impl Into<String>) -> Self {
        self.route = Some(key.into());
        self
    }

    /// Sets the stage. A stage other than `$default` is the first part of the path.
    pub fn stage(mut self, name: impl Into<String>) -> Self {
        self.stage = name.into();
        self
    }

    fn render(&self) -> Value {
        let request = &self.request;
        let path = match &*self.stage {
            "$default" => request.path.clone(),
            stage => format!("/{stage}{}", request.path),
        };
        let default = || format!("{} {}", request.method, request.path);
        let route = self.route.clone().unwrap_or_else(default);
        let (headers, cookies) = request.headers_and_cookies(HOST);
        let (body, is_base64) = request.body();
        let mut event = json!({
            "version": "2.0",
            "routeKey": route,
            "rawPath": path,
            "rawQueryString": request.raw_query(),
            "headers": headers,
            "requestContext": {
                "accountId": ACCOUNT,
                "apiId": "a1b2c3d4e5",
                "domainName": HOST,
                "domainPrefix": "a1b2c3d4e5",
                "http": request.http_context(HOST, &path),
                "requestId": self.request_id,
                "routeKey": route,
                "stage": self.stage,
                "time": TIME_OF_REQUEST,
                "timeEpoch": TIME,
            },
            "isBase64Encoded": is_base64,
        });
        put(&mut event, "cookies", json!(cookies));
        put(&mut event, "queryStringParameters", request.joined_query());
        put(
            &mut event,
            "pathParameters",
            object_or_null(self.path_parameters.clone()),
        );
        put(
            &mut event,
            "stageVariables",
            object_or_null(self.stage_variables.clone()),
        );
        put(&mut event, "body", json!(body));
        put(
            &mut event["requestContext"],
            "authorizer",
            self.authorizer.render(),
        );
        event
    }
}

impl Authorizer {
    fn render(&self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Jwt(claims) => json!({"jwt": {"claims": object(claims.clone()), "scopes": null}}),
            Self::Lambda(fields) => json!({"lambda": object(fields.clone())}),
            Self::Iam(user) => json!({"iam": {
                "accessKey": "AKIAIOSFODNN7EXAMPLE",
                "accountId": ACCOUNT,
                "callerId": "AIDACKCEVSQ6C2EXAMPLE",
                "cognitoIdentity": null,
                "principalOrgId": "o-a1b2c3d4e5",
                "userArn": format!("arn:aws:iam::{ACCOUNT}:user/{user}"),
                "userId": "AIDACKCEVSQ6C2EXAMPLE",
            }}),
        }
    }
}
