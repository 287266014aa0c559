//! Updates that count once. The item keeps the keys of the updates that were applied to it, so an update is one request and needs no
//! second item.
//!
//! A counter is fed by events that can be delivered again. [`Once::update`] adds the user's own update expression and condition to
//! one UpdateItem, which is applied only if the item does not have the key of the event yet, and which adds the key to the item.
//!
//! **What is promised.** Of all updates of one item with one key that are built within the lifetime of the [plan](plan()), at most one
//! is applied. An update is built when [`OnceUpdate::send`] or [`OnceUpdate::prepare`] is called, and the lifetime begins when the
//! update that was applied was built. The promise holds for parallel writers, lost replies, and for writers whose clocks differ by at most
//! [`Plan::clock_skew`].
//!
//! - It holds however late a request arrives: after a pause of the process, too, and after the key was removed from the item.
//! - A key is known for at most [`Estimate::remembered_at_most`]: about 1.4 times the lifetime and 2.4 times the skew, and not less
//!   than 8 times the skew.
//! - A writer whose clock is behind by more than the skew can be refused ([`OnceError::ClockBehind`]). The time of its request counts
//!   too. A refused request applies nothing.
//! - A writer whose clock is ahead by more forgets keys early: the lifetime is shorter by the excess. Writers with the right time are
//!   then refused as too far behind, until their clocks reach that time or an operator removes the attributes of the keys.
//!
//! **What it costs.** DynamoDB bills each write by the size of the whole item, and a refused one too. A key takes 13 bytes, so each 79
//! keys add one write unit to each write. [`Plan::estimate`] returns the cost, and [`Once::new`] refuses a rate that the item
//! cannot hold. For many keys a marker item in the same transaction is cheaper.
//!
//! All writers of the item must use the same plan: lifetime, skew, key bytes and attribute names. A put of the whole item
//! by another program removes the keys.
//!
//! # Examples
//!
//! ```no_run
//! use aws_sdk_dynamodb::types::AttributeValue;
//! use dynamodb_writes::once::{self, Once};
//! use std::time::Duration;
//!
//! # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! // The busiest customer has 36 events an hour, and an event is delivered again for an hour at most.
//! let once = Once::new(once::plan(0.01, Duration::from_secs(3600)).own_bytes(300))?;
//!
//! let customer = [("id", AttributeValue::S("c-1".into()))];
//! let count = once.update("usage", customer, "evt-1").expression("ADD units :n").value(":n", AttributeValue::N("5".into()));
//! let outcome = count.send(&client).await?;
//! println!("{}", if outcome.is_applied() { "counted" } else { "counted before" });
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::system::SystemClock;
use idempotency_core::time::{Clock, EpochMillis};
use layout::Layout;

use crate::error::{InvalidExpression, RequestError};
use crate::expression::{self, UserExpressions, user_expressions};
use crate::item::{Hidden, Item};
use crate::send::{self, Reply};

mod error;
mod layout;
mod plan;
mod prepared;

pub use error::{ItemFull, OnceError, OtherPlan};
pub use plan::{Estimate, Plan, PlanError, plan};
use prepared::Parts;
pub use prepared::{OnceRefusal, PreparedUpdate};

/// Makes updates that count once, by one plan. Clones are cheap.
///
/// # Examples
///
/// ```
/// use dynamodb_writes::once::{self, Once, PlanError};
/// use std::time::Duration;
///
/// let day = Duration::from_secs(24 * 3600);
/// assert!(Once::new(once::plan(0.01, day)).is_ok());
/// // Ten writes a second for a day: 1.2 million keys, which take 16 MB.
/// assert!(matches!(Once::new(once::plan(10.0, day)), Err(PlanError::DoesNotHold(_))));
/// ```
#[derive(Clone)]
pub struct Once {
    layout: Layout,
    clock: Arc<dyn Clock>,
}

impl Once {
    /// Returns an `Once` for this plan.
    ///
    /// # Errors
    ///
    /// [`PlanError::DoesNotHold`] if an item cannot hold the planned rate, with the numbers. [`PlanError::Invalid`] if a number is
    /// out of its range.
    pub fn new(plan: Plan) -> Result<Self, PlanError> {
        let layout = plan.layout()?;
        let estimate = plan.estimate()?;
        if !estimate.holds() {
            return Err(PlanError::DoesNotHold(Box::new(estimate)));
        }
        let clock = Arc::new(SystemClock);
        Ok(Self { layout, clock })
    }

    /// Sets the clock, for tests. The operating system's by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Starts an update of an item that is applied at most once for each `idempotency_key`.
    ///
    /// The key is the same in every try: the id of the event, or of the message. It can have any length; its digest is stored.
    /// Two updates of one event to different items may share it.
    pub fn update<N: Into<String>>(
        &self,
        table: impl Into<String>,
        key: impl IntoIterator<Item = (N, AttributeValue)>,
        idempotency_key: impl AsRef<[u8]>,
    ) -> OnceUpdate {
        OnceUpdate {
            once: self.clone(),
            table: table.into(),
            key: Hidden(expression::key(key)),
            idempotency_key: Hidden(idempotency_key.as_ref().to_vec()),
            user: Hidden(UserExpressions::default()),
            returns_item: false,
        }
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let once = &mut f.debug_struct("Once");
        once.field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// The result of an update that counts once. The item has the update: this call or an earlier one applied it.
///
/// `Debug` shows no attribute of the item.
#[derive(Debug)]
#[must_use = "it says whether this call applied the update, or an earlier one"]
pub struct OnceOutcome {
    item: Hidden<Option<Item>>,
    /// `None` if this call applied the update. Otherwise: whether an earlier send of this call may have applied it.
    before: Option<bool>,
}

impl OnceOutcome {
    /// Returns true if this call applied the update. False if the item has the key: an earlier call with this key applied its update,
    /// or an earlier send of this call applied it and its reply was lost.
    pub fn is_applied(&self) -> bool {
        self.before.is_none()
    }

    /// Returns true if the item has the key, and a reply to this call was lost, so that the earlier send can be its own.
    pub fn maybe_by_this_call(&self) -> bool {
        self.before == Some(true)
    }

    /// Returns the current item, without what this module keeps in it. `None` if this call applied the update and did not ask
    /// with [`return_item`](OnceUpdate::return_item).
    pub fn item(&self) -> Option<&Item> {
        self.item.as_ref()
    }
}

/// How many changed updates one call sends because slots have many old keys. Usually the first one succeeds.
const MAX_CHANGES: u32 = 4;

/// An update that counts once: made by [`Once::update`](Once::update). `Debug` shows no key and no value.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `send`"]
pub struct OnceUpdate {
    once: Once,
    table: String,
    key: Hidden<Item>,
    idempotency_key: Hidden<Vec<u8>>,
    user: Hidden<UserExpressions>,
    returns_item: bool,
}

impl OnceUpdate {
    /// Sets the update expression, in DynamoDB's syntax, such as `ADD units :n`.
    ///
    /// It must not change the attributes that hold the keys. They are added to it.
    pub fn expression(mut self, update: impl Into<String>) -> Self {
        self.user.update = Some(update.into());
        self
    }

    user_expressions! {
        user;
        /// Sets a condition, in DynamoDB's syntax. Without one, the update also makes an item that is absent.
        ///
        /// If it does not hold and the item does not have the key, the update ends in [`OnceError::ConditionFailed`]. If it has the key, the
        /// result is that of an update that was applied before, and the condition does not matter.
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
        let parts = &prepared.parts;
        let item = send::read(client, &parts.table, &parts.key).await;
        match item.map_err(OnceError::Request)? {
            Some(item) => prepared.for_item(&item),
            None => Ok(prepared),
        }
    }

    /// Builds the update for an item without many old keys.
    fn build(self) -> Result<PreparedUpdate, OnceError> {
        let now = self.once.clock.now();
        let bucket = self.once.layout.bucket_at(now).ok_or_else(|| {
            let at_least = now.until(EpochMillis::new(0));
            OnceError::ClockBehind {
                at_least,
                maybe_applied: false,
            }
        })?;
        self.build_in(bucket).map_err(OnceError::Invalid)
    }

    fn build_in(self, bucket: i64) -> Result<PreparedUpdate, InvalidExpression> {
        if self.user.update.is_none() {
            return Err(InvalidExpression::new("there is no update expression"));
        }
        if self.idempotency_key.is_empty() {
            return Err(InvalidExpression::new("the idempotency key is empty"));
        }
        let layout = self.once.layout;
        expression::check_key(&self.key, |name| layout.is_ours(name))?;
        let parts = Parts {
            user: self.user.0.check(|name| layout.is_ours(name))?,
            layout,
            table: self.table,
            key: self.key.0,
            idempotency_key: self.idempotency_key.0,
            bucket,
            stale: BTreeMap::new(),
        };
        parts.prepared()
    }

    /// Applies the update if the item does not have the key: one UpdateItem.
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
            let reply = send::write(client, prepared.write(), returns_item).await;
            let failed = |error: RequestError| {
                let error = error.after_earlier(maybe_applied_before);
                if !error.is_too_large() || error.maybe_applied() {
                    return OnceError::Request(error);
                }
                let room_within = prepared.parts.layout.removed_within();
                OnceError::ItemTooLarge(Box::new(ItemFull { room_within, error }))
            };
            match reply.map_err(failed)? {
                Reply::Applied(item) => {
                    let layout = &prepared.parts.layout;
                    let item = Hidden(item.map(|item| layout::without_keys(layout, item)));
                    return Ok(OnceOutcome { item, before: None });
                }
                Reply::Refused {
                    current,
                    maybe_applied,
                } => {
                    maybe_applied_before |= maybe_applied;
                    match prepared.refusal(current, maybe_applied_before) {
                        OnceRefusal::AlreadyApplied(outcome) => return Ok(outcome),
                        OnceRefusal::SendInstead(instead) => prepared = *instead,
                        OnceRefusal::Error(error) => return Err(error),
                    }
                }
            }
        }
        Err(OnceError::Contended)
    }
}

#[cfg(test)]
mod tests;
