//! A request through a REST API of API Gateway: payload format 1.0.

use serde_json::{Map, Value, json};

use super::request::Request;
use super::value::{object, object_or_null, put};
use super::{ACCOUNT, CLIENT_IP, TIME, TIME_OF_REQUEST};

const HOST: &str = "f6g7h8i9j0.execute-api.eu-central-1.amazonaws.com";

/// Starts a request through a REST API of API Gateway, in payload format 1.0.
///
/// The path may have a query. Header names keep the case in which they are given.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::events;
/// use serde_json::json;
///
/// let event = events::api_gateway_v1("POST", "/payments")
///     .header("Idempotency-Key", "k-1")
///     .claim("sub", "u-1")
///     .json(&json!({"amount": 42}))
///     .to_value();
/// assert_eq!(event["multiValueHeaders"]["Idempotency-Key"], json!(["k-1"]));
/// assert_eq!(event["requestContext"]["authorizer"]["claims"]["sub"], "u-1");
/// ```
pub fn api_gateway_v1(method: impl Into<String>, path: impl Into<String>) -> ApiGatewayV1 {
    ApiGatewayV1 {
        request: Request::new(method.into(), path.into()),
        resource: None,
        stage: "prod".to_owned(),
        request_id: "c6af9ac6-7b61-11e6-9a41-93e8deadbeef".to_owned(),
        path_parameters: Vec::new(),
        stage_variables: Vec::new(),
        claims: Vec::new(),
        authorizer: Vec::new(),
        api_key_id: None,
        iam_user: None,
        changes: Vec::new(),
    }
}

/// A request through a REST API of API Gateway. [`api_gateway_v1`] makes it.
#[derive(Clone, Debug)]
#[must_use]
pub struct ApiGatewayV1 {
    request: Request,
    resource: Option<String>,
    stage: String,
    request_id: String,
    path_parameters: Vec<(String, String)>,
    stage_variables: Vec<(String, String)>,
    claims: Vec<(String, String)>,
    authorizer: Vec<(String, Value)>,
    api_key_id: Option<String>,
    iam_user: Option<String>,
    changes: Vec<(String, Value)>,
}

api_gateway_event!(ApiGatewayV1);

impl ApiGatewayV1 {
    /// Adds a claim of a Cognito user pool: `requestContext.authorizer.claims`.
    pub fn claim(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.claims.push((name.into(), value.into()));
        self
    }

    /// Adds a field of a Lambda authorizer, such as `principalId`: `requestContext.authorizer`.
    pub fn authorizer(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.authorizer.push((name.into(), value.into()));
        self
    }

    /// Sets the id of the API key: `requestContext.identity.apiKeyId`.
    pub fn api_key(mut self, id: impl Into<String>) -> Self {
        self.api_key_id = Some(id.into());
        self
    }

    /// Sets the IAM user that signed the request: `requestContext.identity.userArn`.
    pub fn iam_user(mut self, name: impl Into<String>) -> Self {
        self.iam_user = Some(name.into());
        self
    }

    /// Sets the resource, such as `/payments/{id}`. By default it is the path.
    pub fn resource(mut self, path: impl Into<String>) -> Self {
        self.resource = Some(path.into());
        self
    }

    /// Sets the stage. By default it is `prod`.
    pub fn stage(mut self, name: impl Into<String>) -> Self {
        self.stage = name.into();
        self
    }

    fn render(&self) -> Value {
        let request = &self.request;
        let headers = request.headers(HOST);
        let resource = self
            .resource
            .clone()
            .unwrap_or_else(|| request.path.clone());
        let (body, is_base64) = request.body();
        let mut event = json!({
            "resource": resource,
            "path": request.path,
            "httpMethod": request.method,
            "headers": object(last_of_each(&headers)),
            "multiValueHeaders": object(headers),
            "queryStringParameters": object_or_null(last_of_each(&request.query_lists())),
            "multiValueQueryStringParameters": object_or_null(request.query_lists()),
            "pathParameters": object_or_null(self.path_parameters.clone()),
            "stageVariables": object_or_null(self.stage_variables.clone()),
            "requestContext": {
                "accountId": ACCOUNT,
                "apiId": "f6g7h8i9j0",
                "deploymentId": "pqrs78",
                "domainName": HOST,
                "domainPrefix": "f6g7h8i9j0",
                "extendedRequestId": "JKJaXEPLliaFVtA=",
                "httpMethod": request.method,
                "identity": self.identity(),
                "path": format!("/{}{}", self.stage, request.path),
                "protocol": "HTTP/1.1",
                "requestId": self.request_id,
                "requestTime": TIME_OF_REQUEST,
                "requestTimeEpoch": TIME,
                "resourceId": "123abc",
                "resourcePath": resource,
                "stage": self.stage,
            },
            "body": body,
            "isBase64Encoded": is_base64,
        });
        put(
            &mut event["requestContext"],
            "authorizer",
            self.rendered_authorizer(),
        );
        event
    }

    fn rendered_authorizer(&self) -> Value {
        let mut fields: Map<String, Value> = self.authorizer.iter().cloned().collect();
        if !self.claims.is_empty() {
            fields.insert("claims".to_owned(), object(self.claims.clone()));
        }
        object_or_null(fields)
    }

    fn identity(&self) -> Value {
        let user_arn = |name| format!("arn:aws:iam::{ACCOUNT}:user/{name}");
        let signed = |value: &str| self.iam_user.as_ref().map(|_| value.to_owned());
        let mut identity = json!({
            "accessKey": signed("AKIAIOSFODNN7EXAMPLE"),
            "accountId": signed(ACCOUNT),
            "caller": signed("AIDACKCEVSQ6C2EXAMPLE"),
            "cognitoAuthenticationProvider": null,
            "cognitoAuthenticationType": null,
            "cognitoIdentityId": null,
            "cognitoIdentityPoolId": null,
            "principalOrgId": null,
            "sourceIp": CLIENT_IP,
            "user": signed("AIDACKCEVSQ6C2EXAMPLE"),
            "userAgent": self.request.header(HOST, "user-agent"),
            "userArn": self.iam_user.as_ref().map(user_arn),
        });
        if let Some(id) = &self.api_key_id {
            identity["apiKey"] = json!(format!("secret-of-{id}"));
            identity["apiKeyId"] = json!(id);
        }
        identity
    }
}

/// Returns the last value of each name, which is what the fields with one value hold.
pub(super) fn last_of_each(lists: &[(String, Vec<String>)]) -> Vec<(String, String)> {
    let last = |values: &Vec<String>| values.last().cloned().unwrap_or_default();
    lists
        .iter()
        .map(|(name, values)| (name.clone(), last(values)))
        .collect()
}
