//! Sends one request with the SDK's client, and notes whether a write may have been applied. `idempotency-dynamodb` uses it too.
//!
//! The SDK sends again inside one call and reports only the last result. If the first send is applied and its reply is lost, the
//! call ends with "the condition failed".

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::ops::{Deref, DerefMut};
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
use aws_sdk_dynamodb::operation::get_item::GetItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem, Update,
};
use aws_smithy_runtime_api::client::interceptors::context::Error;
use idempotency_core::store::SendLog;

use crate::error::RequestError;
use crate::recognise::{ClockClassifier, Recognises};
use crate::sdk_error::{CONDITION_FAILED, SendEnd, end};

/// The largest item, in bytes: 400 KB, attribute names included.
pub const LARGEST_ITEM: usize = 400 * 1024;

/// Asks DynamoDB for the current item if the condition fails. It costs no read.
pub const ALL_OLD: ReturnValuesOnConditionCheckFailure =
    ReturnValuesOnConditionCheckFailure::AllOld;

/// An item.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// A value that `Debug` does not show, because it can contain data of the user.
#[derive(Clone)]
pub(crate) struct Hidden<T>(pub(crate) T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl<T> Deref for Hidden<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Hidden<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// The result of a write, and whether an earlier send of it may have been applied.
pub(crate) enum Reply {
    /// It was applied. With the item if the caller asked for it.
    Applied(Option<Item>),
    /// The condition failed.
    Refused {
        /// The current item; `None` if there is none.
        current: Option<Item>,
        /// True if an earlier send of this write may have been applied.
        maybe_applied: bool,
    },
}

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

/// The end of a write, as the SDK reports it. Contains an item if the write asked for it.
pub enum SdkReply {
    /// It was applied.
    Applied(Option<Item>),
    /// The condition failed.
    Refused(Option<Item>),
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
    notes: impl SdkSendNotes,
) -> Result<SdkReply, SdkError<aws_sdk_dynamodb::Error>> {
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
) -> Result<SdkReply, SdkError<aws_sdk_dynamodb::Error>>
where
    E: ProvideErrorMetadata + Into<aws_sdk_dynamodb::Error>,
{
    match sent {
        Ok(item) => Ok(SdkReply::Applied(item)),
        Err(SdkError::ServiceError(failure)) if failure.err().code() == Some(CONDITION_FAILED) => {
            Ok(SdkReply::Refused(match failure.into_err().into() {
                aws_sdk_dynamodb::Error::ConditionalCheckFailedException(failure) => failure.item,
                _ => None,
            }))
        }
        Err(error) => Err(error.map_service_error(Into::into)),
    }
}

impl SdkWrite {
    /// Returns the IAM action.
    fn action(&self) -> &'static str {
        match self {
            Self::Put(_) => "dynamodb:PutItem",
            Self::Update(_) => "dynamodb:UpdateItem",
            Self::Delete(_) => "dynamodb:DeleteItem",
        }
    }

    fn table(&self) -> &str {
        match self {
            Self::Put(put) => &put.table_name,
            Self::Update(update) => &update.table_name,
            Self::Delete(delete) => &delete.table_name,
        }
    }

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

/// Sends a write of [`once`](crate::once) or [`versioned`](crate::versioned).
pub(crate) async fn write(
    client: &Client,
    write: SdkWrite,
    returns_item: bool,
) -> Result<Reply, RequestError> {
    let (action, table) = (write.action(), write.table().to_owned());
    let log = SendLog::new();
    log.preparing();
    let sent = send(client, write, returns_item, Notes(log.clone())).await;
    let maybe_applied = log.maybe_applied();
    match sent {
        Ok(SdkReply::Applied(item)) => Ok(Reply::Applied(item)),
        Ok(SdkReply::Refused(current)) => Ok(Reply::Refused {
            current,
            maybe_applied,
        }),
        Err(error) => Err(RequestError::new(action, &table, error, maybe_applied)),
    }
}

/// Reads an item. `None` if there is none.
pub(crate) async fn read(
    client: &Client,
    table: &str,
    key: &Item,
) -> Result<Option<Item>, RequestError> {
    let call = client.get_item().table_name(table).consistent_read(true);
    let call = call.set_key(Some(key.clone())).customize();
    match call
        .config_override(noting::<GetItemError>(()))
        .send()
        .await
    {
        Ok(output) => Ok(output.item),
        Err(error) => Err(RequestError::new("dynamodb:GetItem", table, error, false)),
    }
}

/// Notes the sends of one call of the SDK.
pub trait SdkSendNotes: fmt::Debug + Send + Sync + 'static {
    /// Returns the timeout of each send. `own` is that of the client.
    fn timeout(&self, own: Duration) -> Duration {
        own
    }

    /// Notes that a send to this URI starts.
    fn starts(&self, uri: &str);

    /// Notes the end of a send. It may have ended before the request was sent: then [`starts`](Self::starts) was not called.
    fn ends(&self, end: SendEnd<'_>);
}

/// Notes nothing.
impl SdkSendNotes for () {
    fn starts(&self, _: &str) {}

    fn ends(&self, _: SendEnd<'_>) {}
}

/// Returns the configuration of a call whose operation has the error `E`: the call tells the notes of each send.
pub fn noting<E>(notes: impl SdkSendNotes) -> Builder
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
        self.notes.ends(end(context, self.meta));
        Ok(())
    }
}

/// Notes the sends of a write. The timeouts of the client stay: no deadline of a caller is known.
#[derive(Debug)]
struct Notes(SendLog);

impl SdkSendNotes for Notes {
    fn starts(&self, _: &str) {
        self.0.sending();
    }

    fn ends(&self, end: SendEnd<'_>) {
        // An error before the send, such as missing credentials, applies nothing.
        if self.0.is_sending() {
            self.0.ended(!end.proves_not_applied(), None);
        }
    }
}
