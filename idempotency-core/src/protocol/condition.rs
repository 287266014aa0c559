//! Conditions of writes, as data.
//!
//! [`classify`](super::classify()) and the stores that swap whole records evaluate them here, on the record that was read. Every other store
//! renders them in its own language. There is one definition, so a store and the protocol cannot disagree about what can be claimed.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::protocol::policy::OnTimeout;
use crate::record::{Attribute, Field, FieldValue, OwnerToken, Record, Status, Unit};
use crate::time::{EpochMillis, EpochSeconds};

/// A condition on the current record, or on the absence of one. A write is applied only if its condition holds.
///
/// A comparison with a missing attribute, or with one of another type, does not hold, as in DynamoDB.
/// [`Differs`](Self::Differs) is the exception: it then holds.
///
/// This enum is exhaustive on purpose: a store must render every kind of condition.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::condition::Condition;
/// use idempotency_core::record::Record;
/// assert!(Condition::NoRecord.holds(None));
/// assert!(!Condition::NoRecord.holds(Some(&Record::default())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// There is no record.
    NoRecord,
    /// The attribute exists.
    Exists(Attribute),
    /// The attribute does not exist.
    Missing(Attribute),
    /// The attribute has this value.
    Equals(Attribute, Operand),
    /// The attribute has another value, another type, or is missing.
    Differs(Attribute, Operand),
    /// The attribute is strictly below this value.
    Below(Attribute, Operand),
    /// All of these hold.
    All(Vec<Condition>),
    /// At least one of these holds.
    Any(Vec<Condition>),
}

/// A value that an attribute is compared with. Seconds and milliseconds cannot be compared with each other.
///
/// # Examples
///
/// ```
/// use idempotency_core::protocol::condition::{Condition, Operand};
/// use idempotency_core::{record::*, time::*};
/// let record = Record { expiration: Field::Value(EpochSeconds::new(60)), ..Record::default() };
/// let below = |operand| Condition::Below(Attribute::Expiration, operand).holds(Some(&record));
/// assert!(below(Operand::Seconds(EpochSeconds::new(61))));
/// assert!(!below(Operand::Millis(EpochMillis::new(61_000))), "an expiration is in seconds");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A text.
    Text(Cow<'static, str>),
    /// Seconds since the epoch.
    Seconds(EpochSeconds),
    /// Milliseconds since the epoch.
    Millis(EpochMillis),
}

/// Returns the condition under which a claim may replace the current record.
///
/// It is the one definition of *claimable*: the condition of every claim, and the first question of
/// [`classify`](super::classify()).
pub fn claimable(now: EpochMillis, on_timeout: OnTimeout) -> Condition {
    use Attribute::{Failure, InProgressExpiration, Status as StatusAttribute};
    let not_in_progress = Condition::Differs(StatusAttribute, Operand::status(&Status::InProgress));
    let lease_expired = || Condition::Below(InProgressExpiration, Operand::Millis(now));
    let (without_window, without_run) = match on_timeout {
        // A window can be shorter than a run: an expired record in progress is not claimable while its lease runs.
        OnTimeout::Rerun => {
            let no_lease = Condition::Missing(InProgressExpiration);
            let ended = vec![not_in_progress, no_lease, lease_expired()];
            (Condition::Any(ended), lease_expired())
        }
        // A run may have started, so only a recorded failure frees its claim.
        OnTimeout::Hold => (not_in_progress, Condition::Exists(Failure)),
    };
    Condition::Any(vec![
        Condition::NoRecord,
        Condition::All(vec![window_expired(now), without_window]),
        Condition::All(vec![in_progress(), without_run]),
    ])
}

/// Returns false if the record is not in progress and its window runs: no claim may replace it, under any policy.
///
/// It makes no condition, because most records that a call finds are responses.
pub(super) fn may_be_claimable(existing: &Record, now: EpochMillis) -> bool {
    let is_in_progress = existing.status.value() == Some(&Status::InProgress);
    is_in_progress || window_expired(now).holds(Some(existing))
}

/// Returns the condition under which a claim of an operation with steps may replace the current record: it is [`claimable`], and a later
/// run needs no steps of it, because its window has expired or there are none.
///
/// A record that is claimable and not replaceable is taken over by an update ([`takeover`]).
pub fn replaceable(now: EpochMillis, on_timeout: OnTimeout) -> Condition {
    let no_steps_needed = vec![window_expired(now), Condition::Missing(Attribute::Steps)];
    Condition::All(vec![
        claimable(now, on_timeout),
        Condition::Any(no_steps_needed),
    ])
}

/// Returns the time of the call in the condition of its claim. `None` if the condition is no claim's: no other write has a time
/// in seconds.
pub(crate) fn time_of_claim(condition: &Condition) -> Option<EpochSeconds> {
    let mut below = Vec::new();
    times(condition, &mut below);
    let now = below.iter().find_map(|time| match time {
        Operand::Seconds(seconds) => Some(*seconds),
        _ => None,
    })?;
    let whole = EpochMillis::new(now.get().saturating_mul(1_000));
    let exact = below.iter().find_map(|time| match time {
        Operand::Millis(millis) => Some(*millis),
        _ => None,
    });
    let at = exact.unwrap_or(whole);
    let is_claim = [OnTimeout::Rerun, OnTimeout::Hold]
        .into_iter()
        .any(|policy| [claimable(at, policy), replaceable(at, policy)].contains(condition));
    is_claim.then_some(now)
}

/// Collects the times with which a condition compares.
fn times(condition: &Condition, found: &mut Vec<Operand>) {
    match condition {
        Condition::Below(_, time) => found.push(time.clone()),
        Condition::All(conditions) | Condition::Any(conditions) => {
            conditions.iter().for_each(|it| times(it, found));
        }
        _ => {}
    }
}

fn in_progress() -> Condition {
    Condition::Equals(Attribute::Status, Operand::status(&Status::InProgress))
}

fn undoing_status() -> Condition {
    Condition::Equals(Attribute::Status, Operand::status(&Status::Undoing))
}

fn window_expired(now: EpochMillis) -> Condition {
    Condition::Below(
        Attribute::Expiration,
        Operand::Seconds(now.floor_to_seconds()),
    )
}

/// Returns the condition of a takeover that keeps the steps: the record is still the claim that `existing` was when it was read.
///
/// It names everything that the decision to take over was made of: the owner, the lease, and the payload. `None` if the owner or
/// the lease of `existing` cannot be read.
pub fn takeover(
    existing: &Record,
    validation: Option<&str>,
    on_timeout: OnTimeout,
) -> Option<Condition> {
    use Attribute::{Failure, InProgressExpiration, Owner, Undo, Validation};
    if [Owner, InProgressExpiration]
        .map(|it| existing.field(it))
        .contains(&Field::Unreadable)
    {
        return None;
    }
    let status = if existing.is_undoing() {
        undoing_status()
    } else {
        in_progress()
    };
    let mut all = vec![
        same(Owner, existing),
        status,
        same(InProgressExpiration, existing),
    ];
    if existing.is_undoing() {
        all.push(same(Undo, existing));
    }
    all.extend(validation.map(|mine| Condition::Equals(Validation, text(mine))));
    if on_timeout == OnTimeout::Hold {
        all.push(Condition::Exists(Failure));
    }
    Some(Condition::All(all))
}

/// Returns the condition that the record is still the claim of `owner`. It is the fence of completions and releases.
pub fn held_by(owner: &OwnerToken) -> Condition {
    Condition::All(vec![
        Condition::Equals(Attribute::Owner, text(owner.as_str())),
        in_progress(),
    ])
}

/// Returns the condition that `owner` still undoes the steps of the record. With `undo` it also says how far the undoing is: it is the
/// fence of each write that goes on with it, so that a late send of an earlier one cannot set it back.
pub fn undone_by(owner: &OwnerToken, undo: Option<&str>) -> Condition {
    let mut all = vec![
        Condition::Equals(Attribute::Owner, text(owner.as_str())),
        undoing_status(),
    ];
    all.extend(undo.map(|undo| Condition::Equals(Attribute::Undo, text(undo))));
    Condition::All(all)
}

/// Returns the condition that the record is still the one that was read. It is the fence of an operator's writes.
///
/// Each claim has its own owner or lease, a completion changes the status, and each decision has its own trace, so the response
/// need not be compared.
pub fn unchanged(read: &Record) -> Condition {
    use Attribute::{Decision, Expiration, Failure, InProgressExpiration, Owner, Validation};
    let compared = [
        Attribute::Status,
        Owner,
        Expiration,
        InProgressExpiration,
        Validation,
        Failure,
        Decision,
    ];
    let undo = read.undo.exists().then_some(Attribute::Undo);
    let compared = compared.into_iter().chain(undo);
    Condition::All(compared.map(|attribute| same(attribute, read)).collect())
}

/// Returns the condition that the attribute is still as it was read.
fn same(attribute: Attribute, read: &Record) -> Condition {
    match read.field(attribute) {
        Field::Absent => Condition::Missing(attribute),
        Field::Unreadable => Condition::Exists(attribute),
        Field::Value(value) => Operand::of(value).map_or(Condition::Exists(attribute), |value| {
            Condition::Equals(attribute, value)
        }),
    }
}

fn text(text: &str) -> Operand {
    Operand::Text(text.to_owned().into())
}

impl Operand {
    /// Returns the operand that equals this status.
    #[doc(hidden)]
    pub fn status(status: &'static Status) -> Self {
        Self::Text(status.as_str().into())
    }

    /// Returns the operand that equals this value. `None` if no condition compares it.
    fn of(value: FieldValue<'_>) -> Option<Self> {
        match value {
            FieldValue::Seconds(at) => Some(Self::Seconds(at)),
            FieldValue::Millis(at) => Some(Self::Millis(at)),
            FieldValue::Text(value) => Some(text(value)),
            FieldValue::Data(data) => Some(text(data.as_str())),
            FieldValue::Steps(_) | FieldValue::Event(_) => None,
        }
    }

    /// Returns true if the attribute can be compared with this operand. If not, no comparison holds, and [`Condition::Differs`] does.
    pub fn fits(&self, attribute: Attribute) -> bool {
        matches!(
            (self, attribute.unit()),
            (Self::Text(_), Some(Unit::Text))
                | (Self::Seconds(_), Some(Unit::Seconds))
                | (Self::Millis(_), Some(Unit::Millis))
        )
    }
}

impl Condition {
    /// Returns true if the condition holds for this record, or for the absence of a record.
    pub fn holds(&self, record: Option<&Record>) -> bool {
        match self {
            Self::NoRecord => record.is_none(),
            Self::Exists(attribute) => {
                record.is_some_and(|record| record.field(*attribute).exists())
            }
            Self::Missing(attribute) => {
                !record.is_some_and(|record| record.field(*attribute).exists())
            }
            Self::Equals(attribute, operand) => {
                compare(record, *attribute, operand).is_some_and(Ordering::is_eq)
            }
            Self::Differs(attribute, operand) => {
                !compare(record, *attribute, operand).is_some_and(Ordering::is_eq)
            }
            Self::Below(attribute, operand) => {
                compare(record, *attribute, operand).is_some_and(Ordering::is_lt)
            }
            Self::All(conditions) => conditions.iter().all(|condition| condition.holds(record)),
            Self::Any(conditions) => conditions.iter().any(|condition| condition.holds(record)),
        }
    }
}

/// Compares the attribute with the operand. Returns `None` if the two cannot be compared.
fn compare(record: Option<&Record>, attribute: Attribute, operand: &Operand) -> Option<Ordering> {
    match (record?.field(attribute).value()?, operand) {
        (FieldValue::Seconds(value), Operand::Seconds(at)) => Some(value.cmp(at)),
        (FieldValue::Millis(value), Operand::Millis(at)) => Some(value.cmp(at)),
        (FieldValue::Text(value), Operand::Text(text)) => Some((*value).cmp(text)),
        (FieldValue::Data(value), Operand::Text(text)) => Some(value.as_str().cmp(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_that_a_claim_may_replace_may_be_claimable() {
        let now = EpochMillis::new(60_000);
        let millis = [
            Field::Absent,
            Field::Unreadable,
            at(0),
            at(60_000),
            at(60_001),
        ];
        let seconds = [0, 59, 60, 61].map(|it| Field::Value(EpochSeconds::new(it)));
        let seconds = seconds
            .into_iter()
            .chain([Field::Absent, Field::Unreadable]);
        let (mut claimed, mut kept) = (0, 0);
        for expiration in seconds {
            for in_progress_expiration in millis.clone() {
                for status in ["INPROGRESS", "COMPLETED", "UNDOING", "other", ""] {
                    for failure in [Field::Absent, Field::Value("Timeout".to_owned())] {
                        let record = Record {
                            status: match status {
                                "" => Field::Unreadable,
                                status => Field::Value(Status::from_record(status.to_owned())),
                            },
                            expiration: expiration.clone(),
                            in_progress_expiration: in_progress_expiration.clone(),
                            failure,
                            ..Record::default()
                        };
                        let may_be = may_be_claimable(&record, now);
                        for policy in [OnTimeout::Rerun, OnTimeout::Hold] {
                            let is = claimable(now, policy).holds(Some(&record));
                            assert!(may_be || !is, "{record:?}");
                            claimed += usize::from(is);
                        }
                        kept += usize::from(!may_be);
                    }
                }
            }
        }
        assert!(claimed > 100 && kept > 100, "{claimed}, {kept}");
    }

    fn at(millis: i64) -> Field<EpochMillis> {
        Field::Value(EpochMillis::new(millis))
    }

    #[test]
    fn only_the_condition_of_a_claim_has_a_time() {
        let now = EpochMillis::new(1_700_000_000_500);
        for policy in [OnTimeout::Rerun, OnTimeout::Hold] {
            for claim in [claimable(now, policy), replaceable(now, policy)] {
                assert_eq!(time_of_claim(&claim), Some(now.floor_to_seconds()));
                assert_eq!(time_of_claim(&Condition::Any(vec![claim])), None);
            }
        }
        let owner = OwnerToken::from_bytes([1; 16]);
        for other in [Condition::NoRecord, held_by(&owner), window_expired(now)] {
            assert_eq!(time_of_claim(&other), None, "{other:?}");
        }
    }
}
