//! The settings of a protected HTTP service on Lambda.

use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_http::{HttpOperation, HttpOperationBuilder, HttpTarget};

use super::HttpLayer;
use super::host::LambdaHost;
use crate::operation::Operation;
use crate::operation::StoreHandle;
use crate::operation::registry::{Claimant, note_built};
use crate::process;
use crate::start;

/// Collects the HTTP rules of an operation. [`OperationBuilder::http`](crate::OperationBuilder::http) starts it.
///
/// The settings that every operation has come before `http()`. Of these, `key` and `validate` are expressions over the request
/// as an event in API Gateway's payload format 2.0. Without `key` the key is the `Idempotency-Key` header, and without
/// `validate` the fingerprint is method, path, query and body.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::Operation;
/// use std::time::Duration;
///
/// let idempotent = Operation::builder("shop::payments")
///     .expires_after(Duration::from_secs(24 * 60 * 60))
///     .http()
///     .caller("requestContext.authorizer.jwt.claims.[iss, sub]")
///     .build()?;
/// assert_eq!(idempotent.key_prefix(), "local.shop.payments");
/// # Ok::<(), idempotency_lambda::Error>(())
/// ```
///
/// A key belongs to one client. Without a rule for the caller nothing is built:
///
/// ```
/// # use idempotency_lambda::Operation;
/// let error = Operation::builder("shop::payments").http().build().unwrap_err();
/// assert!(error.to_string().contains("the caller is missing"), "{error}");
/// ```
pub type HttpLayerBuilder = HttpOperationBuilder<OnLambda>;

/// Makes the rules of a [`HttpLayerBuilder`] those of a function: with the variables and the store of its operation.
#[derive(Debug)]
pub struct OnLambda {
    pub(crate) variables: Option<Variables>,
    pub(crate) store: Option<StoreHandle>,
}

impl HttpTarget for OnLambda {
    type Built = HttpLayer;

    fn build(builder: HttpLayerBuilder) -> Result<HttpLayer, Error> {
        compiled(builder).map_err(start::reported)
    }
}

fn compiled(builder: HttpLayerBuilder) -> Result<HttpLayer, Error> {
    let (OnLambda { variables, store }, rules) = builder.split_target();
    if variables.is_none() {
        process::check_variables()?;
    }
    let (path, identity) = (rules.path().to_owned(), rules.identity());
    let rules = rules.variables(variables.unwrap_or_else(|| process::variables().clone()));
    let (http, operation) = compile(rules, Claimant::Built(&path), &identity).map_err(|error| {
        Error::new(ErrorKind::Configuration, path.as_str()).with_detail(error.to_string())
    })?;
    note_built(store.is_some());
    let operation = match store {
        Some(store) => operation.with_store(store),
        None => operation,
    };
    Ok(HttpLayer::new(&http, LambdaHost::new(operation)))
}

/// Compiles the rules, and the operation under them. `identity` has the settings that make two operations the same one.
///
/// # Errors
///
/// If a variable or a setting cannot be used, or if another operation has the key prefix.
pub(super) fn compile(
    rules: HttpOperationBuilder,
    claimant: Claimant<'_>,
    identity: &Settings,
) -> Result<(HttpOperation, Operation), ConfigurationError> {
    let mut compiled = None;
    let http = rules.build_with(|_, settings, variables| {
        let operation = Operation::compile_as(claimant, settings, identity, variables)?;
        Ok(compiled.insert(operation).shared())
    })?;
    // Unreachable: without an operation there are no rules.
    let missing = || ConfigurationError::new("the operation was not compiled");
    Ok((http, compiled.ok_or_else(missing)?))
}
