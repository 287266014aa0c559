//! Sends one write with the SDK's client, and notes whether it may have been applied. `idempotency-dynamodb` notes its sends by the
//! same interceptor.
//!
//! The SDK sends again inside one call and reports only the last result. If the first send is applied and its reply is lost, the
//! call ends with "the condition failed".

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

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
    AttributeValue, Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, Update,
};
use aws_smithy_runtime_api::client::interceptors::context::Error;
use idempotency_core::store::SendLog;

use crate::error::RequestError;
use crate::sdk_error::{CONDITION_FAILED, end};

/// The largest item, in bytes: 400 KB, attribute names included.
pub const LARGEST_ITEM: usize = 400 * 1024;

/// An item.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// Returns the present item with a failed condition, without the cost of a read.
const ALL_OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

/// The result of a write.
pub(crate) enum Reply {
    /// It was applied. With the item if the caller asked for it.
    Applied(Option<Item>),
    /// The condition failed.
    Refused {
        /// The present item; `None` if there is none.
        current: Option<Item>,
        /// True if an earlier send of this write may have been applied.
        maybe_applied: bool,
    },
}

/// Sends an UpdateItem. Returns the new item if `returns_item` is true.
pub(crate) async fn update(
    client: &Client,
    write: Update,
    returns_item: bool,
) -> Result<Reply, RequestError> {
    let notes = Notes::of::<UpdateItemError>();
    let table = write.table_name.clone();
    let call = client
        .update_item()
        .table_name(write.table_name)
        .set_key(Some(write.key))
        .update_expression(write.update_expression)
        .set_condition_expression(write.condition_expression)
        .set_expression_attribute_names(write.expression_attribute_names)
        .set_expression_attribute_values(write.expression_attribute_values)
        .return_values_on_condition_check_failure(ALL_OLD)
        .set_return_values(returns_item.then_some(ReturnValue::AllNew));
    let sent = call.customize().config_override(notes.config()).send();
    let applied = sent.await.map(|output| output.attributes);
    notes.reply(
        "dynamodb:UpdateItem",
        &table,
        applied,
        |error| match error {
            UpdateItemError::ConditionalCheckFailedException(failure) => failure.item,
            _ => None,
        },
    )
}

/// Sends a PutItem.
pub(crate) async fn put(client: &Client, write: Put) -> Result<Reply, RequestError> {
    let notes = Notes::of::<PutItemError>();
    let table = write.table_name.clone();
    let call = client
        .put_item()
        .table_name(write.table_name)
        .set_item(Some(write.item))
        .set_condition_expression(write.condition_expression)
        .set_expression_attribute_names(write.expression_attribute_names)
        .set_expression_attribute_values(write.expression_attribute_values)
        .return_values_on_condition_check_failure(ALL_OLD);
    let sent = call.customize().config_override(notes.config()).send();
    let applied = sent.await.map(|_| None);
    notes.reply("dynamodb:PutItem", &table, applied, |error| match error {
        PutItemError::ConditionalCheckFailedException(failure) => failure.item,
        _ => None,
    })
}

/// Sends a DeleteItem. Returns the deleted item if `returns_item` is true.
pub(crate) async fn delete(
    client: &Client,
    write: Delete,
    returns_item: bool,
) -> Result<Reply, RequestError> {
    let notes = Notes::of::<DeleteItemError>();
    let table = write.table_name.clone();
    let call = client
        .delete_item()
        .table_name(write.table_name)
        .set_key(Some(write.key))
        .set_condition_expression(write.condition_expression)
        .set_expression_attribute_names(write.expression_attribute_names)
        .set_expression_attribute_values(write.expression_attribute_values)
        .return_values_on_condition_check_failure(ALL_OLD)
        .set_return_values(returns_item.then_some(ReturnValue::AllOld));
    let sent = call.customize().config_override(notes.config()).send();
    let applied = sent.await.map(|output| output.attributes);
    notes.reply(
        "dynamodb:DeleteItem",
        &table,
        applied,
        |error| match error {
            DeleteItemError::ConditionalCheckFailedException(failure) => failure.item,
            _ => None,
        },
    )
}

/// Reads an item. `None` if there is none.
pub(crate) async fn read(
    client: &Client,
    table: &str,
    key: &Item,
) -> Result<Option<Item>, RequestError> {
    let call = client.get_item().table_name(table).consistent_read(true);
    match call.set_key(Some(key.clone())).send().await {
        Ok(output) => Ok(output.item),
        Err(error) => Err(RequestError::new("dynamodb:GetItem", table, error, false)),
    }
}

/// Notes the sends of the SDK's calls, by what [`interceptor`] tells it. An error ends the call: what is not noted must not be sent.
pub trait SdkSendNotes: fmt::Debug + Send + Sync + 'static {
    /// Returns the timeout of each send of a call. `own` is that of the client.
    fn timeout(&self, own: Duration) -> Result<Duration, BoxError> {
        Ok(own)
    }

    /// Notes that a send to this URI starts.
    fn starts(&self, uri: &str) -> Result<(), BoxError>;

    /// Notes the end of a send. It may have ended before the request was sent: then [`starts`](Self::starts) was not called.
    fn ends(&self, context: &FinalizerInterceptorContextRef<'_>) -> Result<(), BoxError>;
}

/// Returns the interceptor that tells these notes of each send.
pub fn interceptor(notes: impl SdkSendNotes) -> SharedInterceptor {
    // Permanent: nothing disables it, so the SDK need not look for that before each step of the call.
    SharedInterceptor::permanent(Interceptor(notes))
}

#[derive(Debug)]
struct Interceptor<N>(N);

impl<N: SdkSendNotes> Intercept for Interceptor<N> {
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
        let timeout = self.0.timeout(own)?;
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
        match components.http_client() {
            Some(_) => self.0.starts(context.request().uri()),
            None => Ok(()),
        }
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.ends(context)
    }
}

/// Notes the sends of one SDK call.
#[derive(Clone, Debug)]
struct Notes {
    log: SendLog,
    /// Returns code and message of an error of the call's operation.
    meta: fn(&Error) -> Option<&ErrorMetadata>,
}

impl SdkSendNotes for Notes {
    fn starts(&self, _: &str) -> Result<(), BoxError> {
        self.log.sending();
        Ok(())
    }

    fn ends(&self, context: &FinalizerInterceptorContextRef<'_>) -> Result<(), BoxError> {
        // An error before the send, such as missing credentials, applies nothing.
        if self.log.is_sending() {
            let end = end(context, self.meta);
            self.log.ended(!end.proves_not_applied(), None);
        }
        Ok(())
    }
}

impl Notes {
    /// Returns the notes of a call whose operation has this error type.
    fn of<E: ProvideErrorMetadata + StdError + Send + Sync + 'static>() -> Self {
        let log = SendLog::new();
        log.preparing();
        Self {
            log,
            meta: |error| error.downcast_ref::<E>().map(ProvideErrorMetadata::meta),
        }
    }

    /// Returns a configuration that notes the sends of one call. The timeouts of the client stay: no deadline of a caller is known.
    fn config(&self) -> Builder {
        let mut config = Builder::new();
        config.push_interceptor(interceptor(self.clone()));
        config
    }

    /// Returns the result of the call. `item` takes the present item out of a failed condition.
    fn reply<E>(
        &self,
        action: &'static str,
        table: &str,
        applied: Result<Option<Item>, SdkError<E>>,
        item: impl FnOnce(E) -> Option<Item>,
    ) -> Result<Reply, RequestError>
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        let maybe_applied = self.log.maybe_applied();
        match applied {
            Ok(item) => Ok(Reply::Applied(item)),
            Err(SdkError::ServiceError(failure))
                if failure.err().code() == Some(CONDITION_FAILED) =>
            {
                Ok(Reply::Refused {
                    current: item(failure.into_err()),
                    maybe_applied,
                })
            }
            Err(error) => Err(RequestError::new(action, table, error, maybe_applied)),
        }
    }
}
