//! Notes of the sends of the SDK's client, which sends again inside one call and reports only the last result. If the first send is
//! applied and its reply is lost, the call ends with "the condition failed".
//!
//! `dynamodb-writes` and `idempotency-dynamodb` use it. It has no promise of stability: all three have one version.

use std::error::Error as StdError;
use std::fmt;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    Builder, ConfigBag, Intercept, RuntimeComponents, SharedInterceptor,
};
use aws_sdk_dynamodb::error::{BoxError, ErrorMetadata, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use aws_smithy_runtime_api::client::interceptors::context::Error;

pub use crate::error::{
    CONDITION_FAILED, TRANSACTION_IN_PROGRESS, cause, chain, is_about_size, never_connected,
    quoted, without_values,
};
use crate::recognise::ClockClassifier;
pub use crate::recognise::{Recognises, not_from_dynamodb};
use crate::reply::Item;
pub use crate::retry::is_throttled;
use crate::send::{ItemReply, SendNotes, SendResult};

/// The largest item, in bytes: 400 KB, attribute names included.
pub const LARGEST_ITEM: usize = 400 * 1024;

/// Asks DynamoDB for the current item if the condition fails. It costs no read.
pub const ALL_OLD: ReturnValuesOnConditionCheckFailure =
    ReturnValuesOnConditionCheckFailure::AllOld;

/// A write in the SDK's form.
#[derive(Clone)]
pub enum SdkWrite {
    /// A PutItem. It can return the item that it replaced.
    Put(Put),
    /// An UpdateItem. It can return the new item.
    Update(Update),
    /// A DeleteItem. It can return the item that it deleted.
    Delete(Delete),
}

/// Sends a write, and notes its sends.
///
/// # Errors
///
/// If there was no reply, or another error than a failed condition. `notes` then has what shows if the write may have been applied.
pub async fn send(
    client: &Client,
    write: SdkWrite,
    returns_item: bool,
    notes: impl SendNotes + fmt::Debug + Send + Sync + 'static,
) -> Result<ItemReply, SdkError<aws_sdk_dynamodb::Error>> {
    let old = returns_item.then_some(ReturnValue::AllOld);
    match write {
        SdkWrite::Put(put) => {
            let call = client
                .put_item()
                .table_name(put.table_name)
                .set_item(Some(put.item))
                .set_condition_expression(put.condition_expression)
                .set_expression_attribute_names(put.expression_attribute_names)
                .set_expression_attribute_values(put.expression_attribute_values)
                .set_return_values_on_condition_check_failure(
                    put.return_values_on_condition_check_failure,
                )
                .set_return_values(old);
            let call = call
                .customize()
                .config_override(noting::<PutItemError>(notes));
            reply(call.send().await.map(|output| output.attributes))
        }
        SdkWrite::Update(update) => {
            let expression = update.update_expression;
            let call = client
                .update_item()
                .table_name(update.table_name)
                .set_key(Some(update.key))
                // DynamoDB refuses an empty expression, which an update without changes has.
                .set_update_expression((!expression.is_empty()).then_some(expression))
                .set_condition_expression(update.condition_expression)
                .set_expression_attribute_names(update.expression_attribute_names)
                .set_expression_attribute_values(update.expression_attribute_values)
                .set_return_values_on_condition_check_failure(
                    update.return_values_on_condition_check_failure,
                )
                .set_return_values(returns_item.then_some(ReturnValue::AllNew));
            let call = call
                .customize()
                .config_override(noting::<UpdateItemError>(notes));
            reply(call.send().await.map(|output| output.attributes))
        }
        SdkWrite::Delete(delete) => {
            let call = client
                .delete_item()
                .table_name(delete.table_name)
                .set_key(Some(delete.key))
                .set_condition_expression(delete.condition_expression)
                .set_expression_attribute_names(delete.expression_attribute_names)
                .set_expression_attribute_values(delete.expression_attribute_values)
                .set_return_values_on_condition_check_failure(
                    delete.return_values_on_condition_check_failure,
                )
                .set_return_values(old);
            let call = call
                .customize()
                .config_override(noting::<DeleteItemError>(notes));
            reply(call.send().await.map(|output| output.attributes))
        }
    }
}

/// Returns the end of a write.
// The error is that of the SDK.
#[allow(clippy::result_large_err)]
fn reply<E>(
    sent: Result<Option<Item>, SdkError<E>>,
) -> Result<ItemReply, SdkError<aws_sdk_dynamodb::Error>>
where
    E: ProvideErrorMetadata + Into<aws_sdk_dynamodb::Error>,
{
    match sent {
        Ok(item) => Ok(ItemReply::Success(item)),
        Err(SdkError::ServiceError(failure)) if failure.err().code() == Some(CONDITION_FAILED) => {
            Ok(ItemReply::ConditionFailed(
                match failure.into_err().into() {
                    aws_sdk_dynamodb::Error::ConditionalCheckFailedException(failure) => {
                        failure.item
                    }
                    _ => None,
                },
            ))
        }
        Err(error) => Err(error.map_service_error(Into::into)),
    }
}

impl SdkWrite {
    /// Returns the write as a part of a transaction.
    pub fn into_transact_item(self) -> TransactWriteItem {
        let item = TransactWriteItem::builder();
        match self {
            Self::Put(put) => item.put(put),
            Self::Update(update) => item.update(update),
            Self::Delete(delete) => item.delete(delete),
        }
        .build()
    }
}

/// Returns the configuration of a call whose operation has the error `E`: the call tells the notes of each send.
pub fn noting<E>(notes: impl SendNotes + fmt::Debug + Send + Sync + 'static) -> Builder
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    let mut config = Builder::new();
    // Permanent: nothing disables it, so the SDK need not look for that before each step of the call.
    config.push_interceptor(SharedInterceptor::permanent(Recognises));
    config.push_interceptor(SharedInterceptor::permanent(Interceptor {
        notes,
        meta: |error| error.downcast_ref::<E>().map(ProvideErrorMetadata::meta),
    }));
    config.retry_classifier(ClockClassifier::<E>::default())
}

#[derive(Debug)]
struct Interceptor<N> {
    notes: N,
    /// Returns code and message of an error of the call's operation.
    meta: fn(&Error) -> Option<&ErrorMetadata>,
}

impl<N: SendNotes + fmt::Debug + Send + Sync> Intercept for Interceptor<N> {
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
        let timeout = self.notes.timeout(own);
        if timeout != own {
            let changed = timeouts.to_builder().operation_attempt_timeout(timeout);
            config.interceptor_state().store_put(changed.build());
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
            self.notes.starts(context.request().uri());
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.notes.ends(ended(context, self.meta));
        Ok(())
    }
}

/// Returns how a send ended. `meta` returns code and message of an error of the call's operation.
fn ended<'a>(
    context: &'a FinalizerInterceptorContextRef<'_>,
    meta: fn(&Error) -> Option<&ErrorMetadata>,
) -> SendResult<'a> {
    let error = match context.output_or_error() {
        // Not known, so it may have been applied.
        None => return SendResult::Timeout,
        Some(Ok(_)) => return SendResult::Success,
        Some(Err(error)) => error,
    };
    if let Some(connector) = error.as_connector_error() {
        return SendResult::NoResponse(connector);
    }
    if error.is_timeout_error() {
        return SendResult::Timeout;
    }
    let meta = error.as_operation_error().and_then(meta);
    let response = context.response();
    SendResult::Response {
        status: response.map_or(0, |response| response.status().as_u16()),
        code: meta.and_then(ErrorMetadata::code),
        message: meta.and_then(ErrorMetadata::message),
    }
}
