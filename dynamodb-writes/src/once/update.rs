//! Builds and sends an update that counts once.

use std::fmt;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::clock::Clock;
use idempotency_core::time::EpochMillis;

use super::error::{ClockBehind, ItemFull, OnceError};
use super::layout::Layout;
use super::outcome::{Applied, OnceOutcome};
use super::prepared::{OnceRefusal, PreparedUpdate};
use super::stored;
use crate::error::{InvalidExpression, RequestError};
use crate::expression::{self, UserExpressions};
use crate::send::{self, Item, Reply};

/// How often an update is changed because slots have many old keys. After the first one that removes them, the next
/// succeeds.
const MAX_CHANGES: u32 = 4;

/// An update that counts once: made by [`Once::update`](super::Once::update). `Debug` shows the table alone.
#[derive(Clone)]
#[must_use = "nothing is sent before `send`"]
pub struct OnceUpdate {
    pub(super) layout: Layout,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) table: String,
    pub(super) key: Item,
    pub(super) idempotency_key: Vec<u8>,
    pub(super) user: UserExpressions,
    pub(super) returns_item: bool,
}

impl OnceUpdate {
    /// Sets the update expression, in DynamoDB's syntax, such as `ADD units :n`.
    ///
    /// It must not change the attributes that hold the keys. They are added to it.
    pub fn expression(mut self, update: impl Into<String>) -> Self {
        self.user.update = Some(update.into());
        self
    }

    /// Sets a condition, in DynamoDB's syntax. Without one, the update also makes an item that is absent.
    ///
    /// If it does not hold and the key is not known, the update ends in [`OnceError::ConditionFailed`]. If the key is known, the
    /// result is [`OnceOutcome::AlreadyApplied`], and the condition does not matter.
    pub fn condition(mut self, condition: impl Into<String>) -> Self {
        self.user.condition = Some(condition.into());
        self
    }

    /// Defines a placeholder of an attribute name, such as `#status`.
    pub fn name(mut self, placeholder: impl Into<String>, attribute: impl Into<String>) -> Self {
        self.user.names.insert(placeholder.into(), attribute.into());
        self
    }

    /// Defines a placeholder of a value, such as `:n`.
    pub fn value(mut self, placeholder: impl Into<String>, value: AttributeValue) -> Self {
        self.user.values.insert(placeholder.into(), value);
        self
    }

    /// Asks for the new item: [`OnceOutcome::item`]. It costs no capacity. DynamoDB sends the keys with it, up to 400 KB, and they
    /// are dropped here.
    pub fn return_item(mut self) -> Self {
        self.returns_item = true;
        self
    }

    /// Builds the update without sending it, for a transaction.
    ///
    /// It reads the item (`dynamodb:GetItem`, consistently). If the item was idle and holds many keys from before, the update also
    /// removes them. A transaction without that would be cancelled each time, until [`send`](Self::send) has removed them.
    ///
    /// # Errors
    ///
    /// [`OnceError::Invalid`]; [`OnceError::ClockBehind`] if the clock is before 1970; [`OnceError::Request`] if the item could not be
    /// read.
    pub async fn prepare(self, client: &Client) -> Result<PreparedUpdate, OnceError> {
        let prepared = self.build()?;
        match send::read(client, &prepared.table, &prepared.key).await? {
            Some(item) => prepared.for_item(&item),
            None => Ok(prepared),
        }
    }

    /// Builds the update for an item without many old keys.
    pub(super) fn build(self) -> Result<PreparedUpdate, OnceError> {
        if self.user.update.is_none() {
            return Err(InvalidExpression::new("there is no update expression").into());
        }
        if self.idempotency_key.is_empty() {
            return Err(InvalidExpression::new("the idempotency key is empty").into());
        }
        let now = self.clock.now();
        let bucket = self.layout.bucket_at(now).ok_or_else(|| {
            let at_least = now.until(EpochMillis::new(0));
            OnceError::ClockBehind(ClockBehind {
                at_least,
                maybe_applied: false,
            })
        })?;
        expression::check_key(&self.key, |name| self.layout.is_ours(name))?;
        let user = self.user.check(|name| self.layout.is_ours(name))?;
        let (layout, idempotency_key) = (self.layout, self.idempotency_key);
        let prepared =
            PreparedUpdate::new(layout, self.table, self.key, user, idempotency_key, bucket);
        Ok(prepared?)
    }

    /// Applies the update if the item does not know the key: one UpdateItem.
    ///
    /// If the item was idle and holds many keys from before, a second UpdateItem removes them and applies the update.
    ///
    /// # Errors
    ///
    /// See [`OnceError`], which says after which of them it is safe to send the update again with the same key.
    pub async fn send(self, client: &Client) -> Result<OnceOutcome, OnceError> {
        let returns_item = self.returns_item;
        let mut prepared = self.build()?;
        let mut maybe_applied_before = false;
        for _ in 0..=MAX_CHANGES {
            let reply = send::update(client, prepared.update(), returns_item).await;
            let failed = |error: RequestError| {
                let error = error.or_maybe_applied(maybe_applied_before);
                if !error.is_too_large() || error.maybe_applied() {
                    return OnceError::Request(error);
                }
                let room_within = prepared.layout.removed_within();
                OnceError::ItemTooLarge(Box::new(ItemFull { room_within, error }))
            };
            match reply.map_err(failed)? {
                Reply::Applied(item) => {
                    let item = item.map(|item| stored::without_keys(&prepared.layout, item));
                    return Ok(OnceOutcome::Applied(Applied { item }));
                }
                Reply::Refused {
                    current,
                    maybe_applied,
                } => {
                    maybe_applied_before |= maybe_applied;
                    match prepared.refusal(current, maybe_applied_before) {
                        OnceRefusal::AlreadyApplied(already) => {
                            return Ok(OnceOutcome::AlreadyApplied(already));
                        }
                        OnceRefusal::SendInstead(instead) => prepared = *instead,
                        OnceRefusal::Error(error) => return Err(error),
                    }
                }
            }
        }
        Err(OnceError::Contended)
    }
}

impl fmt::Debug for OnceUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceUpdate")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}
