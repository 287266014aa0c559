//! Recognises the responses of DynamoDB in the SDK's client. The SDK takes each 2xx with a JSON object, or without a body, for a
//! success, and lets the date of each response set the clock that signs.
//!
//! A refused signature is sent again if DynamoDB's date differs from the time of that signature. The SDK compares with the clock of the
//! process, so it gives up after that clock was set right.

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::time::SystemTime;

use aws_runtime::service_clock_skew::DisableClockSkewCorrection;
use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeDeserializationInterceptorContextMut,
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::{BoxError, ProvideErrorMetadata};
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{
    ClassifyRetry, RetryAction, RetryClassifierPriority,
};
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use aws_smithy_types::retry::ErrorKind;

use crate::clock::{SUSPECT, date};
use crate::reply::{self, is_of_dynamodb};
use crate::retry::CLOCK;

/// Returns true if a response whose body the SDK has read is a success of DynamoDB.
fn is_success(response: &HttpResponse) -> bool {
    // The SDK reads an empty body as an empty object.
    let has_body = response.body().bytes().is_none_or(|body| !body.is_empty());
    has_body && reply::is_success(response)
}

/// Returns the text about a response that only looks like a success.
pub fn not_from_dynamodb(status: u16) -> String {
    format!("a response with status {status} is not from DynamoDB: check the endpoint and proxies")
}

/// When the current send was signed.
#[derive(Clone, Copy, Debug)]
struct Signed(SystemTime);

impl Storable for Signed {
    type Storer = StoreReplace<Self>;
}

/// True while the SDK must not measure its clock by the current response.
#[derive(Clone, Copy, Debug)]
struct Unmeasured(bool);

impl Storable for Unmeasured {
    type Storer = StoreReplace<Self>;
}

/// True if the signature of a request was so early or so late that its refusal can be due to that.
#[derive(Clone, Copy, Debug)]
struct SignedWrongly(bool);

/// Refuses a success that is not from DynamoDB, and lets only responses of DynamoDB set the clock.
#[derive(Debug)]
pub struct Recognises;

impl Intercept for Recognises {
    fn name(&self) -> &'static str {
        "responses of DynamoDB"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(signed) = signed_at(context.request()) {
            config.interceptor_state().store_put(Signed(signed));
        }
        Ok(())
    }

    /// The SDK measures its clock after this step.
    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if !is_of_dynamodb(context.response()) && corrects_clock(config) {
            let state = config.interceptor_state();
            state.store_put(DisableClockSkewCorrection::from(true));
            state.store_put(Unmeasured(true));
        }
        Ok(())
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if corrects_clock(config)
            && let Some(Signed(signed)) = config.load::<Signed>()
            && let Some(date) = date(context.response())
        {
            let differ = date
                .duration_since(*signed)
                .unwrap_or_else(|behind| behind.duration());
            let response = context.response_mut();
            response.add_extension(SignedWrongly(differ > SUSPECT));
        }
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if context.output_or_error().is_ok() && !is_success(context.response()) {
            let status = context.response().status().as_u16();
            return Err(not_from_dynamodb(status).into());
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        _: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(Unmeasured(true)) = config.load::<Unmeasured>() {
            let state = config.interceptor_state();
            state.store_put(DisableClockSkewCorrection::from(false));
            state.store_put(Unmeasured(false));
        }
        Ok(())
    }
}

fn corrects_clock(config: &ConfigBag) -> bool {
    let disabled = config.load::<DisableClockSkewCorrection>();
    !disabled.is_some_and(DisableClockSkewCorrection::is_disabled)
}

/// Returns the time that a request was signed with, such as `20261122T070658Z` in its header.
fn signed_at(request: &HttpRequest) -> Option<SystemTime> {
    let text = request.headers().get("x-amz-date")?;
    // With what the compact form leaves out. Each request comes here, so nothing is allocated.
    let mut full = *b"0000-00-00T00:00:00Z";
    for (to, from) in [
        (0, 0..4),
        (5, 4..6),
        (8, 6..8),
        (11, 9..11),
        (14, 11..13),
        (17, 13..15),
    ] {
        let digits = text.get(from)?.as_bytes();
        full[to..to + digits.len()].copy_from_slice(digits);
    }
    let full = std::str::from_utf8(&full).ok()?;
    let time = DateTime::from_str(full, DateTimeFormat::DateTime).ok()?;
    SystemTime::try_from(time).ok()
}

/// Says whether a refused signature is sent again: if its time was wrong, which the response has shown. `E` is the error of the
/// operation.
pub(crate) struct ClockClassifier<E>(PhantomData<fn() -> E>);

impl<E> Default for ClockClassifier<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E> fmt::Debug for ClockClassifier<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClockClassifier")
    }
}

impl<E> ClassifyRetry for ClockClassifier<E>
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let response = context.response();
        let Some(SignedWrongly(is_wrong)) = response.and_then(HttpResponse::extension) else {
            return RetryAction::NoActionIndicated;
        };
        let error = context.output_or_error().and_then(Result::err);
        let error = error.and_then(|error| error.as_operation_error()?.downcast_ref::<E>());
        let code = error.and_then(ProvideErrorMetadata::code);
        let is_temporary = response.is_some_and(|response| response.status().is_server_error());
        match (code, is_wrong) {
            (Some(code), true) if CLOCK.contains(&code) => {
                RetryAction::retryable_error(ErrorKind::ServerError)
            }
            // The SDK's own rule may say otherwise.
            (Some(code), false) if CLOCK.contains(&code) && !is_temporary => {
                RetryAction::RetryForbidden
            }
            _ => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "clock of DynamoDB"
    }

    /// Runs after the SDK's own rule for the clock.
    fn priority(&self) -> RetryClassifierPriority {
        let of_sdk = RetryClassifierPriority::run_after(
            RetryClassifierPriority::http_status_code_classifier(),
        );
        RetryClassifierPriority::run_after(of_sdk)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_of_a_signature_is_read_from_its_header() {
        let mut request = HttpRequest::empty();
        for (header, seconds) in [
            ("20261122T070658Z", Some(1_795_331_218)),
            ("20261122", None),
            ("2026112\u{e9}T070658Z", None),
            ("20261322T070658Z", None),
            ("", None),
        ] {
            request
                .headers_mut()
                .insert("x-amz-date", header.to_owned());
            let time = seconds.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(signed_at(&request), time, "{header}");
        }
    }
}
