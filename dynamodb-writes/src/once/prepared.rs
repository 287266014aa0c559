//! An update that counts once, built and not sent: the one expression, and what its failed condition means.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update as SdkUpdate};

use idempotency_core::store::RejectedWrite;

use super::layout::{self, FEW, Layout};
use super::{OnceError, OnceOutcome, OtherPlan};
use crate::error::{ConditionFailed, InvalidExpression};
use crate::expression::{Clause, Expressions, check_length, not_built};
use crate::item::{Hidden, Item};
use dynamodb_lean_client::sdk::{ALL_OLD, SdkWrite};

/// An update that counts once, ready to be sent or to be part of a transaction.
///
/// It belongs to the moment at which it was built: send it soon. If it is sent when another writer is two buckets
/// ahead, it is refused as [`OnceError::ClockBehind`]. It never counts twice. `Debug` shows the table alone.
///
/// # Examples
///
/// ```no_run
/// use aws_sdk_dynamodb::types::AttributeValue;
/// use dynamodb_writes::once::Once;
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
    pub(super) parts: Parts,
    pub(super) update: SdkUpdate,
}

/// What a failed condition of an update means.
#[derive(Debug)]
#[non_exhaustive]
pub enum OnceRefusal {
    /// The item has the key.
    AlreadyApplied(OnceOutcome),
    /// The item has many old keys, or other ones than when it was read: send this instead, which removes them.
    SendInstead(Box<PreparedUpdate>),
    /// The condition of the caller does not hold, or the item cannot be written by this plan and clock.
    Error(OnceError),
}

impl PreparedUpdate {
    /// Returns the update as a part of a transaction, which asks for the current item if its condition fails.
    #[must_use]
    pub fn transact_item(&self) -> TransactWriteItem {
        self.write().into_transact_item()
    }

    /// Returns the update that also removes the old keys of this item, if there are many.
    pub(super) fn for_item(self, item: &Item) -> Result<Self, OnceError> {
        match self.explain(item, false) {
            Ok(Explanation::Stale(stale)) => self.replacing(stale).map_err(OnceError::Invalid),
            // The transaction itself shows the other cases.
            _ => Ok(self),
        }
    }

    pub(super) fn write(&self) -> SdkWrite {
        SdkWrite::Update(self.update.clone())
    }

    /// Returns what it means that the condition of this update failed. `item` is the current item, as the error or the
    /// cancellation reason has it; `maybe_applied` is true if an earlier send may have been applied.
    #[must_use]
    pub fn refusal(&self, item: Option<Item>, maybe_applied: bool) -> OnceRefusal {
        let Some(item) = item else {
            return self.condition_failed(None, maybe_applied);
        };
        match self.explain(&item, maybe_applied) {
            Ok(Explanation::HasKey) => OnceRefusal::AlreadyApplied(OnceOutcome {
                item: Hidden(Some(layout::without_keys(&self.parts.layout, item))),
                before: Some(maybe_applied),
            }),
            Ok(Explanation::Stale(stale)) => match self.replacing(stale) {
                Ok(instead) => OnceRefusal::SendInstead(Box::new(instead)),
                Err(error) => OnceRefusal::Error(OnceError::Invalid(error)),
            },
            Ok(Explanation::UserCondition) => self.condition_failed(
                Some(layout::without_keys(&self.parts.layout, item)),
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
        OnceRefusal::Error(OnceError::ConditionFailed(ConditionFailed {
            item: Hidden(item),
            may_still_arrive,
        }))
    }

    /// Returns which part of the condition the item does not meet.
    fn explain(&self, item: &Item, maybe_applied: bool) -> Result<Explanation, OnceError> {
        let parts = &self.parts;
        let layout = &parts.layout;
        let foreign = |attribute| OnceError::Foreign { attribute };
        let own = layout.plan_text();
        match layout::plan(layout, item).map_err(foreign)? {
            Some(plan) if plan != own => {
                let stored = plan.to_owned();
                return Err(OnceError::OtherPlan(OtherPlan { stored, own }));
            }
            _ => {}
        }
        let mut stale = BTreeMap::new();
        let mut latest = None;
        let mut has_key = false;
        for bucket in layout.seen_from(parts.bucket) {
            let digest = layout.digest(bucket, &parts.idempotency_key);
            let slot = layout::slot(layout, item, bucket, &digest).map_err(foreign)?;
            has_key |= slot.has_key;
            match slot.number {
                Some(number) if number > bucket => latest = latest.max(slot.number),
                Some(number) if number < bucket && slot.keys >= FEW => {
                    stale.insert(bucket, number);
                }
                _ => {}
            }
        }
        let removed = layout.removed_from(parts.bucket);
        let slot = layout::slot(layout, item, removed, &[]).map_err(foreign)?;
        if slot.number.is_some_and(|number| number >= removed) {
            latest = latest.max(slot.number);
        }
        if has_key {
            return Ok(Explanation::HasKey);
        }
        if let Some(latest) = latest {
            return Err(OnceError::ClockBehind {
                at_least: self.behind(latest),
                maybe_applied,
            });
        }
        if stale != parts.stale {
            return Ok(Explanation::Stale(stale));
        }
        if parts.user.condition.is_none() {
            // All parts of our condition hold for these values: only another type explains it.
            let attribute = layout.set(parts.bucket);
            return Err(OnceError::Foreign { attribute });
        }
        Ok(Explanation::UserCondition)
    }

    /// Returns how far the clock is behind at least, if another writer was in the bucket `latest`.
    fn behind(&self, latest: i64) -> Duration {
        let Parts { layout, bucket, .. } = &self.parts;
        let buckets = latest.saturating_sub(*bucket).saturating_sub(1).max(0);
        let seconds = buckets.saturating_mul(layout.bucket);
        Duration::from_secs(seconds.unsigned_abs())
    }

    /// Returns the update that also removes what these slots hold.
    fn replacing(&self, stale: BTreeMap<i64, i64>) -> Result<Self, InvalidExpression> {
        let parts = self.parts.clone();
        Parts { stale, ..parts }.prepared()
    }
}

/// Why a condition failed.
enum Explanation {
    /// The item has the key.
    HasKey,
    /// These slots, which the update did not replace, have many old keys; or those that it replaced have changed.
    Stale(BTreeMap<i64, i64>),
    /// Our part of the condition holds, so the condition of the caller does not.
    UserCondition,
}

impl fmt::Debug for PreparedUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedUpdate")
            .field("table", &self.parts.table)
            .finish_non_exhaustive()
    }
}

/// What the expression is made of.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) layout: Layout,
    pub(super) table: String,
    pub(super) key: Item,
    pub(super) user: Expressions,
    pub(super) idempotency_key: Vec<u8>,
    pub(super) bucket: i64,
    /// The buckets whose slots have many old keys, with the current number of each slot.
    pub(super) stale: BTreeMap<i64, i64>,
}

impl Parts {
    /// Builds the one UpdateItem.
    pub(super) fn prepared(self) -> Result<PreparedUpdate, InvalidExpression> {
        let mut checked = self.user.clone();
        let layout = &self.layout;
        let (mut conditions, mut refusals) = (Vec::new(), Vec::new());
        let plan = checked.name("p", &layout.plan());
        let plan_text = checked.value("p", AttributeValue::S(layout.plan_text()));
        conditions.push(format!(
            "(attribute_not_exists({plan}) OR {plan} = {plan_text})"
        ));
        checked
            .clauses
            .add(Clause::Set, format!("{plan} = {plan_text}"));

        // A later update, sent instead of this one, can also remove the old keys of these slots. It must not be too long either.
        let mut removed_later = 0;
        for bucket in layout.seen_from(self.bucket) {
            let slot = self.names(&mut checked, bucket);
            match self.stale.get(&bucket) {
                Some(stale) => conditions.push(self.replaced(&mut checked, bucket, slot, *stale)),
                None => {
                    removed_later += ", , ".len() + slot.0.len() + slot.1.len();
                    refusals.push(self.refused(&mut checked, bucket, slot));
                }
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
        check_length("update expression", update.len() + removed_later)?;
        check_length("condition", condition.len())?;
        let update = SdkUpdate::builder()
            .table_name(&self.table)
            .set_key(Some(self.key.clone()))
            .update_expression(update)
            .condition_expression(condition)
            .set_expression_attribute_names(Some(checked.names))
            .set_expression_attribute_values(Some(checked.values))
            .return_values_on_condition_check_failure(ALL_OLD)
            .build();
        let update = update.map_err(not_built)?;
        Ok(PreparedUpdate {
            parts: self,
            update,
        })
    }

    /// Returns the condition that a slot was written by a clock far ahead, has many old keys, or has the key. A part about an
    /// attribute that is absent is false.
    fn refused(
        &self,
        checked: &mut Expressions,
        bucket: i64,
        (set, number): (String, String),
    ) -> String {
        let own = self.number(checked, "b", bucket, bucket);
        let few = checked.value("few", AttributeValue::N(FEW.to_string()));
        let digest = self.layout.digest(bucket, &self.idempotency_key);
        let short = format!("k{}", self.layout.slot(bucket));
        let digest = checked.value(&short, AttributeValue::B(Blob::new(digest)));
        format!(
            "{number} > {own} OR ({number} < {own} AND size({set}) >= {few}) OR contains({set}, {digest})"
        )
    }

    /// Returns the condition that a slot still has the old keys that were seen, and adds their removal. A slot of the current
    /// bucket is overwritten by [`add_key`](Self::add_key) instead.
    fn replaced(
        &self,
        checked: &mut Expressions,
        bucket: i64,
        (set, number): (String, String),
        stale: i64,
    ) -> String {
        let seen = self.number(checked, "o", bucket, stale);
        if bucket != self.bucket {
            checked
                .clauses
                .add(Clause::Remove, format!("{set}, {number}"));
        }
        format!("{number} = {seen}")
    }

    /// Adds the key to the set of the current bucket, or makes it the only one there.
    fn add_key(&self, checked: &mut Expressions) {
        let (set, number) = self.names(checked, self.bucket);
        let own = self.number(checked, "b", self.bucket, self.bucket);
        checked
            .clauses
            .add(Clause::Set, format!("{number} = {own}"));
        let digest = self.layout.digest(self.bucket, &self.idempotency_key);
        let one = checked.value("add", AttributeValue::Bs(vec![Blob::new(digest)]));
        if self.stale.contains_key(&self.bucket) {
            checked.clauses.add(Clause::Set, format!("{set} = {one}"));
        } else {
            checked.clauses.add(Clause::Add, format!("{set} {one}"));
        }
    }

    /// Returns the placeholders of the names of a slot: its set and its number.
    fn names(&self, checked: &mut Expressions, bucket: i64) -> (String, String) {
        let (layout, slot) = (&self.layout, self.layout.slot(bucket));
        let set = checked.name(&format!("s{slot}"), &layout.set(bucket));
        let number = checked.name(&format!("b{slot}"), &layout.number(bucket));
        (set, number)
    }

    /// Returns the placeholder of a number for the slot of a bucket.
    fn number(&self, checked: &mut Expressions, short: &str, bucket: i64, number: i64) -> String {
        let short = format!("{short}{}", self.layout.slot(bucket));
        checked.value(&short, AttributeValue::N(number.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use idempotency_testkit::ManualClock;

    use super::*;
    use crate::once::{Once, OnceUpdate, plan};

    /// The bucket of each update, which has 900 seconds.
    const BUCKET: i64 = 1_000;

    /// Returns an update without an expression.
    fn empty(key_attribute: &str, idempotency_key: &str) -> OnceUpdate {
        let once = Once::new(plan(0.1, Duration::from_secs(4_440))).unwrap();
        let once = once.clock(Arc::new(ManualClock::at(BUCKET * 900_000)));
        let key = [(key_attribute, AttributeValue::S("c-1".to_owned()))];
        once.update("usage", key, idempotency_key)
    }

    fn update() -> OnceUpdate {
        let update = empty("id", "evt-1").expression("ADD units :n");
        update.value(":n", number(5))
    }

    fn prepared() -> PreparedUpdate {
        update().build().unwrap()
    }

    fn number(number: i64) -> AttributeValue {
        AttributeValue::N(number.to_string())
    }

    /// Returns an item whose slot has this number and so many other keys.
    fn item(bucket: i64, stored: i64, keys: u32) -> Item {
        let layout = prepared().parts.layout;
        let keys = (0..keys).map(|key| Blob::new(key.to_be_bytes()));
        let set = AttributeValue::Bs(keys.collect());
        Item::from([
            ("units".to_owned(), number(7)),
            (layout.plan(), AttributeValue::S(layout.plan_text())),
            (layout.set(bucket), set),
            (layout.number(bucket), number(stored)),
        ])
    }

    /// Returns the item with the key in a bucket.
    fn with_key(mut item: Item, bucket: i64) -> Item {
        let layout = prepared().parts.layout;
        let digest = Blob::new(layout.digest(bucket, b"evt-1"));
        let set = item.entry(layout.set(bucket));
        match set.or_insert(AttributeValue::Bs(Vec::new())) {
            AttributeValue::Bs(digests) => digests.push(digest),
            _ => panic!("a set is expected"),
        }
        item
    }

    /// Returns the update that is sent instead of a refused one.
    fn instead(prepared: &PreparedUpdate, item: Item) -> PreparedUpdate {
        match prepared.refusal(Some(item), false) {
            OnceRefusal::SendInstead(instead) => *instead,
            other => panic!("another update is expected: {other:?}"),
        }
    }

    fn meaning(prepared: &PreparedUpdate, item: Item) -> &'static str {
        match prepared.refusal(Some(item), false) {
            OnceRefusal::AlreadyApplied(_) => "already",
            OnceRefusal::SendInstead(_) => "instead",
            OnceRefusal::Error(OnceError::ConditionFailed(_)) => "condition",
            OnceRefusal::Error(OnceError::ClockBehind { .. }) => "clock",
            OnceRefusal::Error(OnceError::OtherPlan(_)) => "plan",
            OnceRefusal::Error(OnceError::Foreign { .. }) => "foreign",
            OnceRefusal::Error(_) => "other",
        }
    }

    #[test]
    fn the_expression_is_the_users_with_ours() {
        let update = prepared().update;
        assert_eq!(
            update.update_expression,
            "SET #idem_p = :idem_p, #idem_b1 = :idem_b1 REMOVE #idem_s3, #idem_b3 ADD units :n, #idem_s1 :idem_add"
        );
        let condition = update.condition_expression.unwrap();
        assert!(condition.len() < 1_000, "{}", condition.len());
        let per_slot = "#idem_b1 > :idem_b1 OR (#idem_b1 < :idem_b1 AND size(#idem_s1) >= :idem_few) OR contains(#idem_s1, :idem_k1) OR ";
        assert!(condition.contains(per_slot), "{condition}");
        assert!(
            condition.ends_with(" OR #idem_b3 >= :idem_b3)"),
            "{condition}"
        );
        let names = update.expression_attribute_names.unwrap();
        assert_eq!(names["#idem_s1"], "once_1");
        assert_eq!(names["#idem_b1"], "once_1b");
    }

    #[test]
    fn the_key_in_each_bucket_that_can_have_it_means_that_it_was_applied() {
        let prepared = prepared();
        let in_bucket = |bucket| with_key(item(bucket, bucket, 1), bucket);
        for bucket in BUCKET - 6..=BUCKET + 1 {
            assert_eq!(meaning(&prepared, in_bucket(bucket)), "already");
        }
        // In another bucket the same key has another digest.
        for bucket in [BUCKET - 7, BUCKET + 2] {
            assert_ne!(meaning(&prepared, in_bucket(bucket)), "already");
        }
    }

    #[test]
    fn a_condition_of_the_caller_counts_only_if_the_key_is_not_known() {
        let prepared = update().condition("units < :n").build().unwrap();
        // Few old keys need no other update, and neither do many current ones.
        for (stored, keys) in [(BUCKET, 1), (BUCKET - 9, 3), (BUCKET, 5_000)] {
            let item = item(BUCKET, stored, keys);
            assert_eq!(meaning(&prepared, item), "condition");
        }
        let known = with_key(item(BUCKET, BUCKET, 1), BUCKET);
        assert_eq!(meaning(&prepared, known), "already");
        let absent = prepared.refusal(None, true);
        let OnceRefusal::Error(OnceError::ConditionFailed(failed)) = absent else {
            panic!("a failed condition is expected");
        };
        assert!(failed.item().is_none() && failed.may_still_arrive());
        let text = OnceError::ConditionFailed(failed).to_string();
        assert!(
            text.ends_with(
                "not applied so far, and an earlier send that got no reply may still be applied"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_bucket_far_ahead_means_that_the_clock_is_behind() {
        let prepared = prepared();
        for (ahead, seconds) in [(2, 900), (3, 1_800), (7, 5_400), (70, 62_100)] {
            let bucket = BUCKET + ahead;
            let refusal = prepared.refusal(Some(item(bucket, bucket, 1)), false);
            let OnceRefusal::Error(OnceError::ClockBehind {
                at_least,
                maybe_applied,
            }) = refusal
            else {
                panic!("the clock is behind");
            };
            assert_eq!(at_least.as_secs(), seconds);
            assert!(!maybe_applied);
        }
        // One bucket ahead is within the plan: the condition holds, so the failure has another reason.
        assert_eq!(
            meaning(&prepared, item(BUCKET + 1, BUCKET + 1, 1)),
            "foreign"
        );
    }

    #[test]
    fn a_slot_with_many_old_keys_is_replaced_by_the_next_update() {
        let prepared = prepared();
        let old = item(BUCKET, BUCKET - 9, 4);
        let instead_of_first = instead(&prepared, old);
        assert_eq!(
            instead_of_first.update.update_expression,
            "SET #idem_p = :idem_p, #idem_b1 = :idem_b1, #idem_s1 = :idem_add REMOVE #idem_s3, #idem_b3 ADD units :n"
        );
        let condition = instead_of_first.update.condition_expression();
        let replaces = condition.unwrap().contains("AND #idem_b1 = :idem_o1 AND");
        assert!(replaces, "{condition:?}");
        let elsewhere = item(BUCKET - 3, BUCKET - 12, 4);
        let instead_of_second = instead(&instead_of_first, elsewhere);
        assert_eq!(
            instead_of_second.update.update_expression,
            "SET #idem_p = :idem_p, #idem_b1 = :idem_b1 REMOVE #idem_s7, #idem_b7, #idem_s3, #idem_b3 ADD units :n, #idem_s1 :idem_add"
        );
        // Another writer removed them in the meantime: back to the first form.
        let first = instead(&instead_of_second, item(BUCKET, BUCKET, 50));
        assert_eq!(first.update, prepared.update);
    }

    #[test]
    fn an_update_that_is_too_long_with_the_removal_of_all_old_keys_is_refused_before_its_first_send()
     {
        let build = |bytes: usize| {
            let update = empty("id", "evt-1").expression(format!("ADD {} :n", "u".repeat(bytes)));
            update.value(":n", number(5)).build()
        };
        let most = (3_000..4_096).rev().find(|bytes| build(*bytes).is_ok());
        let prepared = build(most.unwrap()).unwrap();
        let seen = prepared.parts.layout.seen_from(BUCKET);
        let longest = prepared.replacing(seen.map(|bucket| (bucket, bucket - 8)).collect());
        let longest = longest.unwrap().update.update_expression.len();
        assert!((4_060..=4_096).contains(&longest), "{longest}");
    }

    #[test]
    fn an_update_for_an_item_that_was_read_removes_its_old_keys() {
        let old = item(BUCKET, BUCKET - 9, 4);
        let for_item = |item: &Item| prepared().for_item(item).unwrap().update;
        assert_eq!(for_item(&old), instead(&prepared(), old.clone()).update);
        for same in [
            Item::new(),
            item(BUCKET, BUCKET - 9, 3),
            item(BUCKET, BUCKET, 50),
            with_key(old, BUCKET - 1),
            item(BUCKET + 2, BUCKET + 2, 1),
        ] {
            assert_eq!(for_item(&same), prepared().update);
        }
    }

    #[test]
    fn a_rejection_that_is_no_condition_says_nothing_of_the_item() {
        let known = with_key(item(BUCKET, BUCKET, 1), BUCKET);
        for (code, is_known) in [
            (RejectedWrite::CONDITION, true),
            ("ValidationError", false),
            ("", false),
        ] {
            let write = RejectedWrite::new(0, "update", code).with_item(known.clone());
            let refusal = prepared().rejected(&write);
            assert_eq!(
                matches!(refusal, Some(OnceRefusal::AlreadyApplied(_))),
                is_known,
                "{code}"
            );
            assert_eq!(refusal.is_some(), is_known, "{code}");
        }
    }

    #[test]
    fn what_another_program_or_plan_wrote_is_refused() {
        let prepared = prepared();
        let layout = &prepared.parts.layout;
        let mut other = item(BUCKET, BUCKET, 1);
        other.insert(layout.plan(), AttributeValue::S("4x60s 12B".to_owned()));
        assert_eq!(meaning(&prepared, other), "plan");
        // An error shows a plan, and no value of another program.
        for text in ["gold", "", "x", "4x60s 12B secret", "4xs 12B", "sx4 B"] {
            let mut other = item(BUCKET, BUCKET, 1);
            other.insert(layout.plan(), AttributeValue::S(text.to_owned()));
            assert_eq!(meaning(&prepared, other), "foreign", "{text}");
        }
        for attribute in [
            layout.plan(),
            layout.set(BUCKET - 1),
            layout.number(BUCKET + 2),
        ] {
            let mut foreign = item(BUCKET, BUCKET, 1);
            foreign.insert(attribute, AttributeValue::Bool(true));
            assert_eq!(meaning(&prepared, foreign), "foreign");
        }
    }

    #[test]
    fn an_update_without_an_expression_or_a_key_is_refused() {
        let long = format!("SET a = {}b", "b + ".repeat(1_000));
        for refused in [
            empty("id", "evt-1"),
            empty("id", "").expression("REMOVE a"),
            empty("once_1", "evt-1").expression("REMOVE a"),
            empty("id", "evt-1").expression("REMOVE once_3"),
            empty("id", "evt-1").expression(long),
        ] {
            let refused = refused.build();
            assert!(matches!(refused, Err(OnceError::Invalid(_))), "{refused:?}");
        }
    }
}
