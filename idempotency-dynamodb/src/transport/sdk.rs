//! Sends requests with the client of the AWS SDK.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    Builder, ConfigBag, Intercept, RuntimeComponents, SharedInterceptor,
};
use aws_sdk_dynamodb::error::{BoxError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::get_item::GetItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use idempotency_core::store::StoreError;

use super::Reply;
use crate::failure;
use crate::item::Item;
use crate::request::{Attribute, Expressions, Request, Value};
use crate::sends::{CONDITION_FAILED, SendEnd, Sends};

/// Returns the present record with a failed condition, without the cost of a read.
const ALL_OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

/// Sends a request, as [`Transport::send`](super::Transport::send) does.
pub(super) async fn send(
    client: &Client,
    request: Request<'_>,
    sends: &Sends,
) -> Result<Reply, StoreError> {
    let table = sends.table();
    match request {
        Request::Put {
            item,
            expressions,
            returns_replaced,
            returns_existing,
        } => {
            let call = client
                .put_item()
                .table_name(table)
                .set_item(Some(to_item(item)))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .set_return_values_on_condition_check_failure(returns_existing.then_some(ALL_OLD))
                .set_return_values(returns_replaced.then_some(ReturnValue::AllOld));
            let result = call
                .customize()
                .config_override(noting::<PutItemError>(sends))
                .send();
            match result.await {
                Ok(output) => Ok(Reply::Success(output.attributes)),
                Err(error) => failed(sends, error, |error| match error {
                    PutItemError::ConditionalCheckFailedException(failure) => failure.item,
                    _ => None,
                }),
            }
        }
        Request::Update { key, expressions } => {
            let call = client
                .update_item()
                .table_name(table)
                .set_key(Some(to_item(key)))
                .set_update_expression(expressions.update().map(str::to_owned))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .return_values_on_condition_check_failure(ALL_OLD);
            let result = call
                .customize()
                .config_override(noting::<UpdateItemError>(sends))
                .send();
            match result.await {
                Ok(_) => Ok(Reply::Success(None)),
                Err(error) => failed(sends, error, |error| match error {
                    UpdateItemError::ConditionalCheckFailedException(failure) => failure.item,
                    _ => None,
                }),
            }
        }
        Request::Delete { key, expressions } => {
            let call = client
                .delete_item()
                .table_name(table)
                .set_key(Some(to_item(key)))
                .condition_expression(expressions.condition())
                .set_expression_attribute_names(names(&expressions))
                .set_expression_attribute_values(values(&expressions))
                .return_values_on_condition_check_failure(ALL_OLD);
            let result = call
                .customize()
                .config_override(noting::<DeleteItemError>(sends))
                .send();
            match result.await {
                Ok(_) => Ok(Reply::Success(None)),
                Err(error) => failed(sends, error, |error| match error {
                    DeleteItemError::ConditionalCheckFailedException(failure) => failure.item,
                    _ => None,
                }),
            }
        }
        Request::Get { key, consistent } => {
            let call = client
                .get_item()
                .table_name(table)
                .set_key(Some(to_item(key)))
                .consistent_read(consistent);
            let result = call
                .customize()
                .config_override(noting::<GetItemError>(sends))
                .send();
            match result.await {
                Ok(output) => Ok(Reply::Success(output.item)),
                Err(error) => Err(sends.error(error)),
            }
        }
    }
}

/// Returns the result of a call that failed. `item` takes the present item out of a failed condition.
fn failed<E>(
    sends: &Sends,
    error: SdkError<E>,
    item: impl FnOnce(E) -> Option<Item>,
) -> Result<Reply, StoreError>
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    match error {
        SdkError::ServiceError(failure) if failure.err().code() == Some(CONDITION_FAILED) => {
            Ok(Reply::ConditionFailed(item(failure.into_err())))
        }
        error => Err(sends.error(error)),
    }
}

fn to_item(attributes: Vec<Attribute<'_>>) -> Item {
    let attributes = attributes.into_iter();
    attributes
        .map(|(name, value)| (name.to_owned(), to_value(value)))
        .collect()
}

/// Converts a value to that of the SDK.
pub(crate) fn to_value(value: Value<'_>) -> AttributeValue {
    match value {
        Value::Text(text) => AttributeValue::S(text.to_owned()),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Bytes(bytes) => AttributeValue::B(Blob::new(bytes)),
    }
}

/// Returns the names of the placeholders. `None` if there are none: DynamoDB rejects an empty map.
fn names(expressions: &Expressions<'_>) -> Option<HashMap<String, String>> {
    let names = expressions.names().iter();
    let names: HashMap<_, _> = names.cloned().collect();
    (!names.is_empty()).then_some(names)
}

/// Returns the values of the placeholders. `None` if there are none: DynamoDB rejects an empty map.
fn values(expressions: &Expressions<'_>) -> Option<HashMap<String, AttributeValue>> {
    let values = expressions.values();
    let values: HashMap<_, _> = values
        .map(|(placeholder, value)| (placeholder.to_owned(), to_value(value)))
        .collect();
    (!values.is_empty()).then_some(values)
}

/// Notes the sends of one SDK call. `E` is the error type of its operation.
struct Interceptor<E> {
    sends: Sends,
    error: PhantomData<fn() -> E>,
}

/// Returns a configuration that notes the sends of one call.
fn noting<E>(sends: &Sends) -> Builder
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    let mut config = Builder::new();
    // Permanent: nothing disables it, so the SDK need not look for that before each step of the call.
    config.push_interceptor(SharedInterceptor::permanent(Interceptor {
        sends: sends.clone(),
        error: PhantomData::<fn() -> E>,
    }));
    config
}

impl<E> fmt::Debug for Interceptor<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interceptor").field(&self.sends).finish()
    }
}

impl<E: ProvideErrorMetadata + StdError + Send + Sync + 'static> Intercept for Interceptor<E> {
    fn name(&self) -> &'static str {
        "idempotency sends"
    }

    /// Shortens the timeout of each send, so that a send that hangs is repeated while the caller still waits.
    fn read_before_serialization(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // A client without a timeout keeps none: that is the user's choice.
        let Some(timeouts) = config.load::<TimeoutConfig>() else {
            return Ok(());
        };
        let Some(own) = timeouts.operation_attempt_timeout() else {
            return Ok(());
        };
        let timeout = self.sends.timeout(own);
        if timeout < own {
            let shortened = timeouts.to_builder().operation_attempt_timeout(timeout);
            let shortened = shortened.build();
            config.interceptor_state().store_put(shortened);
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        components: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // The SDK looks for the HTTP client after this step. Without one it sends nothing.
        if components.http_client().is_some() {
            self.sends.starts(context.request().uri());
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        match context.output_or_error() {
            Some(Ok(_)) => self.sends.ends(SendEnd::Success),
            Some(Err(error)) => {
                if let Some(connector) = error.as_connector_error() {
                    self.sends.ends(SendEnd::NoResponse {
                        never_connected: failure::never_connected(connector),
                        timeout: connector.is_timeout(),
                    });
                } else if error.is_timeout_error() {
                    self.sends.ends(SendEnd::NoResponse {
                        never_connected: false,
                        timeout: true,
                    });
                } else {
                    let error = error
                        .as_operation_error()
                        .and_then(|error| error.downcast_ref::<E>());
                    let status = context
                        .response()
                        .map(|response| response.status().as_u16());
                    self.sends.ends(SendEnd::ErrorResponse {
                        status,
                        code: error.and_then(ProvideErrorMetadata::code),
                        message: error.and_then(ProvideErrorMetadata::message),
                    });
                }
            }
            None => self.sends.ends(SendEnd::Unknown),
        }
        Ok(())
    }
}
