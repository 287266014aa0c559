//! An update that counts once, built and not sent: the one expression, and what its failed condition means.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update as SdkUpdate,
};

use idempotency_core::store::RejectedWrite;

use super::error::{ClockBehind, OnceConditionFailed, OnceError, OtherPlan};
use super::layout::{FEW, Layout};
use super::outcome::AlreadyApplied;
use super::stored::{self, Slot};
use crate::business::{Checked, Clause, InvalidExpression, check_length, not_built};
use crate::item::Item;

/// An update that counts once, ready to be sent or to be part of a transaction.
///
/// It belongs to the moment at which it was built: send it soon. Late, it is refused as [`OnceError::ClockBehind`] if another
/// writer is two buckets ahead by then, and never counts twice. `Debug` shows the table alone.
///
/// # Examples
///
/// ```no_run
/// use aws_sdk_dynamodb::types::AttributeValue;
/// use idempotency_dynamodb::once::Once;
///
/// # async fn example(client: aws_sdk_dynamodb::Client, once: Once) -> Result<(), Box<dyn std::error::Error>> {
/// let customer = [("id", AttributeValue::S("c-1".into()))];
/// let count = once.update("usage", customer, "evt-1").expression("ADD units :n").value(":n", AttributeValue::N("5".into()));
/// let count = count.prepare(&client).await?;
/// client.transact_write_items().transact_items(count.transact_item()).send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PreparedUpdate {
    pub(super) layout: Layout,
    pub(super) table: String,
    pub(super) key: Item,
    pub(super) user: Checked,
    pub(super) idempotency_key: Vec<u8>,
    pub(super) bucket: i64,
    /// The buckets whose slots have many old keys, with the number that each slot has now.
    stale: BTreeMap<i64, i64>,
    update: SdkUpdate,
}

/// What a failed condition of an update means.
#[derive(Debug)]
#[non_exhaustive]
pub enum OnceRefusal {
    /// The item knows the key.
    AlreadyApplied(AlreadyApplied),
    /// The item has many old keys, or other ones than when it was read: send this instead, which removes them.
    SendInstead(Box<PreparedUpdate>),
    /// The condition of the caller does not hold, or the item cannot be written by this plan and clock.
    Error(OnceError),
}

impl PreparedUpdate {
    /// Builds the update.
    pub(super) fn new(
        layout: Layout,
        table: String,
        key: Item,
        user: Checked,
        idempotency_key: Vec<u8>,
        bucket: i64,
    ) -> Result<Self, InvalidExpression> {
        let stale = BTreeMap::new();
        let parts = Parts {
            layout: &layout,
            idempotency_key: &idempotency_key,
            bucket,
            stale: &stale,
        };
        let update = parts.build(&table, &key, user.clone())?;
        Ok(Self {
            layout,
            table,
            key,
            user,
            idempotency_key,
            bucket,
            stale,
            update,
        })
    }

    /// Returns the update as a part of a transaction, which asks for the present item if its condition fails.
    #[must_use]
    pub fn transact_item(&self) -> TransactWriteItem {
        let mut update = self.update.clone();
        update.return_values_on_condition_check_failure =
            Some(ReturnValuesOnConditionCheckFailure::AllOld);
        TransactWriteItem::builder().update(update).build()
    }

    /// Returns the update that also removes the old keys of this item, if there are many.
    pub(super) fn for_item(self, item: &Item) -> Result<Self, OnceError> {
        match self.explain(item, false) {
            Ok(Explained::Stale(stale)) => Ok(self.replacing(stale)?),
            // What else the item says, the transaction finds out.
            _ => Ok(self),
        }
    }

    pub(super) fn update(&self) -> SdkUpdate {
        self.update.clone()
    }

    /// Returns what it means that the condition of this update failed. `item` is the present item, as the error or the
    /// cancellation reason has it; `maybe_applied` is true if an earlier send may have been applied.
    #[must_use]
    pub fn refusal(&self, item: Option<Item>, maybe_applied: bool) -> OnceRefusal {
        let Some(item) = item else {
            return self.condition_failed(None, maybe_applied);
        };
        match self.explain(&item, maybe_applied) {
            Ok(Explained::HasKey) => OnceRefusal::AlreadyApplied(AlreadyApplied {
                item: stored::without_keys(&self.layout, item),
                maybe_by_this_call: maybe_applied,
            }),
            Ok(Explained::Stale(stale)) => match self.replacing(stale) {
                Ok(instead) => OnceRefusal::SendInstead(Box::new(instead)),
                Err(error) => OnceRefusal::Error(error.into()),
            },
            Ok(Explained::Ours) => self.condition_failed(
                Some(stored::without_keys(&self.layout, item)),
                maybe_applied,
            ),
            Err(error) => OnceRefusal::Error(error),
        }
    }

    /// Returns what it means that the transaction of a protected handler was rejected for this update, or `None` if its condition is
    /// not the reason.
    ///
    /// `write` is from [`Error::rejection`](idempotency_core::error::Error::rejection). No earlier send of that transaction was applied.
    #[must_use]
    pub fn rejected(&self, write: &RejectedWrite) -> Option<OnceRefusal> {
        let is_condition = write.is_condition();
        is_condition.then(|| self.refusal(write.item::<Item>().cloned(), false))
    }

    fn condition_failed(&self, item: Option<Item>, may_still_arrive: bool) -> OnceRefusal {
        OnceRefusal::Error(OnceError::ConditionFailed(OnceConditionFailed {
            item,
            may_still_arrive,
        }))
    }

    /// Returns which part of the condition the item does not meet.
    fn explain(&self, item: &Item, maybe_applied: bool) -> Result<Explained, OnceError> {
        let layout = &self.layout;
        let foreign = |attribute| OnceError::Foreign { attribute };
        let own = layout.plan_text();
        match stored::plan(layout, item).map_err(foreign)? {
            Some(plan) if plan != own => {
                let stored = plan.to_owned();
                return Err(OnceError::OtherPlan(OtherPlan { stored, own }));
            }
            _ => {}
        }
        let mut stale = BTreeMap::new();
        let mut latest = None;
        let mut has_key = false;
        for bucket in layout.seen_from(self.bucket) {
            let digest = layout.digest(bucket, &self.idempotency_key);
            let slot = stored::slot(layout, item, bucket, &digest).map_err(foreign)?;
            has_key |= slot.has_key;
            match slot {
                Slot {
                    number: Some(number),
                    ..
                } if number > bucket => latest = latest.max(Some(number)),
                Slot {
                    number: Some(number),
                    keys,
                    ..
                } if number < bucket && keys >= FEW => {
                    stale.insert(bucket, number);
                }
                _ => {}
            }
        }
        let removed = layout.removed_from(self.bucket);
        let slot = stored::slot(layout, item, removed, &[]).map_err(foreign)?;
        if slot.number.is_some_and(|number| number >= removed) {
            latest = latest.max(slot.number);
        }
        if has_key {
            return Ok(Explained::HasKey);
        }
        if let Some(latest) = latest {
            return Err(OnceError::ClockBehind(ClockBehind {
                at_least: self.behind(latest),
                maybe_applied,
            }));
        }
        if stale != self.stale {
            return Ok(Explained::Stale(stale));
        }
        if self.user.condition.is_none() {
            // All parts of our condition hold for these values: only another type explains it.
            let attribute = layout.set(self.bucket);
            return Err(OnceError::Foreign { attribute });
        }
        Ok(Explained::Ours)
    }

    /// Returns how far the clock is behind at least, if another writer was in the bucket `latest`.
    fn behind(&self, latest: i64) -> Duration {
        let buckets = latest.saturating_sub(self.bucket).saturating_sub(1).max(0);
        let seconds = buckets.saturating_mul(self.layout.bucket);
        Duration::from_secs(seconds.unsigned_abs())
    }

    /// Returns the update that also removes what these slots hold.
    fn replacing(&self, stale: BTreeMap<i64, i64>) -> Result<Self, InvalidExpression> {
        let parts = Parts {
            layout: &self.layout,
            idempotency_key: &self.idempotency_key,
            bucket: self.bucket,
            stale: &stale,
        };
        let update = parts.build(&self.table, &self.key, self.user.clone())?;
        Ok(Self {
            stale,
            update,
            ..self.clone()
        })
    }
}

/// Why a condition failed.
enum Explained {
    /// The item knows the key.
    HasKey,
    /// These slots, which the update did not replace, have many old keys; or those that it replaced have changed.
    Stale(BTreeMap<i64, i64>),
    /// Our part of the condition holds.
    Ours,
}

impl fmt::Debug for PreparedUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedUpdate")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// What the expression is made of.
struct Parts<'a> {
    layout: &'a Layout,
    idempotency_key: &'a [u8],
    bucket: i64,
    stale: &'a BTreeMap<i64, i64>,
}

impl Parts<'_> {
    /// Builds the one UpdateItem.
    fn build(
        &self,
        table: &str,
        key: &Item,
        mut checked: Checked,
    ) -> Result<SdkUpdate, InvalidExpression> {
        let layout = self.layout;
        let (mut conditions, mut refusals) = (Vec::new(), Vec::new());
        let plan = checked.name("p", &layout.plan());
        let plan_text = checked.value("p", AttributeValue::S(layout.plan_text()));
        conditions.push(format!(
            "(attribute_not_exists({plan}) OR {plan} = {plan_text})"
        ));
        checked
            .clauses
            .add(Clause::Set, format!("{plan} = {plan_text}"));

        for bucket in layout.seen_from(self.bucket) {
            match self.stale.get(&bucket) {
                Some(number) => conditions.push(self.replaced(&mut checked, bucket, *number)),
                None => refusals.push(self.refused(&mut checked, bucket)),
            }
        }
        self.add_key(&mut checked);

        let removed = layout.removed_from(self.bucket);
        let (set, number) = self.names(&mut checked, removed);
        let ahead = self.number(&mut checked, "b", removed, removed);
        refusals.push(format!("{number} >= {ahead}"));
        conditions.push(format!("NOT ({})", refusals.join(" OR ")));
        checked
            .clauses
            .add(Clause::Remove, format!("{set}, {number}"));

        conditions.extend(checked.condition.take());
        let (update, condition) = (checked.clauses.to_string(), conditions.join(" AND "));
        check_length("update expression", &update)?;
        check_length("condition", &condition)?;
        SdkUpdate::builder()
            .table_name(table)
            .set_key(Some(key.clone()))
            .update_expression(update)
            .condition_expression(condition)
            .set_expression_attribute_names(checked.take_names())
            .set_expression_attribute_values(checked.take_values())
            .build()
            .map_err(not_built)
    }

    /// Returns the condition that a slot was written by a clock far ahead, has many old keys, or has the key. A part about an
    /// attribute that is absent is false.
    fn refused(&self, checked: &mut Checked, bucket: i64) -> String {
        let (set, number) = self.names(checked, bucket);
        let own = self.number(checked, "b", bucket, bucket);
        let few = checked.value("few", AttributeValue::N(FEW.to_string()));
        let digest = self.layout.digest(bucket, self.idempotency_key);
        let short = format!("k{}", self.layout.slot(bucket));
        let digest = checked.value(&short, AttributeValue::B(Blob::new(digest)));
        format!(
            "{number} > {own} OR ({number} < {own} AND size({set}) >= {few}) OR contains({set}, {digest})"
        )
    }

    /// Returns the condition that a slot still has the old keys that were seen, and adds their removal. A slot of the current
    /// bucket is overwritten by [`add_key`](Self::add_key) instead.
    fn replaced(&self, checked: &mut Checked, bucket: i64, stale: i64) -> String {
        let (set, number) = self.names(checked, bucket);
        let seen = self.number(checked, "o", bucket, stale);
        if bucket != self.bucket {
            checked
                .clauses
                .add(Clause::Remove, format!("{set}, {number}"));
        }
        format!("{number} = {seen}")
    }

    /// Adds the key to the set of the current bucket, or makes it the only one there.
    fn add_key(&self, checked: &mut Checked) {
        let (set, number) = self.names(checked, self.bucket);
        let own = self.number(checked, "b", self.bucket, self.bucket);
        checked
            .clauses
            .add(Clause::Set, format!("{number} = {own}"));
        let digest = self.layout.digest(self.bucket, self.idempotency_key);
        let one = checked.value("add", AttributeValue::Bs(vec![Blob::new(digest)]));
        if self.stale.contains_key(&self.bucket) {
            checked.clauses.add(Clause::Set, format!("{set} = {one}"));
        } else {
            checked.clauses.add(Clause::Add, format!("{set} {one}"));
        }
    }

    /// Returns the placeholders of the names of a slot: its set and its number.
    fn names(&self, checked: &mut Checked, bucket: i64) -> (String, String) {
        let (layout, slot) = (self.layout, self.layout.slot(bucket));
        let set = checked.name(&format!("s{slot}"), &layout.set(bucket));
        let number = checked.name(&format!("b{slot}"), &layout.number(bucket));
        (set, number)
    }

    /// Returns the placeholder of a number for the slot of a bucket.
    fn number(&self, checked: &mut Checked, short: &str, bucket: i64, number: i64) -> String {
        let short = format!("{short}{}", self.layout.slot(bucket));
        checked.value(&short, AttributeValue::N(number.to_string()))
    }
}

#[cfg(test)]
mod tests;
