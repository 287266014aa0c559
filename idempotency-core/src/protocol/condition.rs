//! Conditions of writes, as data.
//!
//! The store in memory and [`classify`](super::classify()) evaluate them here. Every other store renders them in its own
//! language. There is one definition, so a store and the protocol cannot disagree about what can be claimed.

use crate::protocol::policy::OnTimeout;
use crate::record::{Attribute, Field, OwnerToken, Record, Status};
use crate::time::{EpochMillis, EpochSeconds};

/// A condition on the current record, or on the absence of one. A write is applied only if its condition holds.
///
/// Attributes behave as in DynamoDB: a comparison with a missing attribute, or with one of another type, does not hold.
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
    Text(String),
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
    let in_progress = Condition::Equals(StatusAttribute, Operand::status(&Status::InProgress));
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
        Condition::All(vec![in_progress, without_run]),
    ])
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

/// Returns the time of the call in the condition of its claim. `None` if the condition is no claim's: no other write has a time.
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
    let Record {
        owner,
        in_progress_expiration: lease,
        ..
    } = existing;
    if *owner == Field::Unreadable || *lease == Field::Unreadable {
        return None;
    }
    let mut all = vec![
        same(Attribute::Owner, owner, |owner| text(owner.as_str())),
        Condition::Equals(Attribute::Status, Operand::status(&Status::InProgress)),
        same(Attribute::InProgressExpiration, lease, |end| {
            Operand::Millis(*end)
        }),
    ];
    all.extend(validation.map(|mine| Condition::Equals(Attribute::Validation, text(mine))));
    if on_timeout == OnTimeout::Hold {
        all.push(Condition::Exists(Attribute::Failure));
    }
    Some(Condition::All(all))
}

/// Returns the condition that the record is still the claim of `owner`. It is the fence of completions and releases.
pub fn held_by(owner: &OwnerToken) -> Condition {
    Condition::All(vec![
        Condition::Equals(Attribute::Owner, text(owner.as_str())),
        Condition::Equals(Attribute::Status, Operand::status(&Status::InProgress)),
    ])
}

/// Returns the condition that the record is still the one that was read. It is the fence of an operator's writes.
///
/// Each claim has its own owner or lease, a completion changes the status, and each decision has its own trace, so the response
/// need not be compared.
pub fn unchanged(read: &Record) -> Condition {
    Condition::All(vec![
        same(Attribute::Status, &read.status, Operand::status),
        same(Attribute::Owner, &read.owner, |owner| text(owner.as_str())),
        same(Attribute::Expiration, &read.expiration, |end| {
            Operand::Seconds(*end)
        }),
        same(
            Attribute::InProgressExpiration,
            &read.in_progress_expiration,
            |end| Operand::Millis(*end),
        ),
        same(Attribute::Validation, &read.validation, |hash| text(hash)),
        same(Attribute::Failure, &read.failure, |failure| text(failure)),
        same(Attribute::Decision, &read.decision, |trace| text(trace)),
    ])
}

/// Returns the condition that the attribute is still as it was read.
fn same<T>(
    attribute: Attribute,
    field: &Field<T>,
    operand: impl FnOnce(&T) -> Operand,
) -> Condition {
    match field {
        Field::Absent => Condition::Missing(attribute),
        Field::Unreadable => Condition::Exists(attribute),
        Field::Value(value) => Condition::Equals(attribute, operand(value)),
    }
}

fn text(text: &str) -> Operand {
    Operand::Text(text.to_owned())
}

impl Operand {
    fn status(status: &Status) -> Self {
        text(status.as_str())
    }
}

impl Condition {
    /// Returns true if the condition holds for this record, or for the absence of a record.
    pub fn holds(&self, record: Option<&Record>) -> bool {
        match self {
            Self::NoRecord => record.is_none(),
            Self::Exists(attribute) => record.is_some_and(|record| exists(record, *attribute)),
            Self::Missing(attribute) => !record.is_some_and(|record| exists(record, *attribute)),
            Self::Equals(attribute, operand) => record.is_some_and(|record| {
                compare(record, *attribute, operand).is_some_and(|o| o.is_eq())
            }),
            Self::Differs(attribute, operand) => {
                !Self::Equals(*attribute, operand.clone()).holds(record)
            }
            Self::Below(attribute, operand) => record.is_some_and(|record| {
                compare(record, *attribute, operand).is_some_and(|o| o.is_lt())
            }),
            Self::All(conditions) => conditions.iter().all(|condition| condition.holds(record)),
            Self::Any(conditions) => conditions.iter().any(|condition| condition.holds(record)),
        }
    }
}

fn exists(record: &Record, attribute: Attribute) -> bool {
    match attribute {
        Attribute::Expiration => record.expiration.exists(),
        Attribute::InProgressExpiration => record.in_progress_expiration.exists(),
        Attribute::Status => record.status.exists(),
        Attribute::Data => record.data.exists(),
        Attribute::Validation => record.validation.exists(),
        Attribute::Owner => record.owner.exists(),
        Attribute::Failure => record.failure.exists(),
        Attribute::Operation => record.operation.exists(),
        Attribute::Decision => record.decision.exists(),
        Attribute::Event => record.event.is_some(),
        Attribute::Steps => record.steps.exists(),
    }
}

/// Compares the attribute with the operand. Returns `None` if the two cannot be compared.
fn compare(record: &Record, attribute: Attribute, operand: &Operand) -> Option<std::cmp::Ordering> {
    fn text<T>(
        field: &Field<T>,
        as_str: impl Fn(&T) -> &str,
        operand: &Operand,
    ) -> Option<std::cmp::Ordering> {
        match operand {
            Operand::Text(text) => field.value().map(|value| as_str(value).cmp(text)),
            Operand::Seconds(_) | Operand::Millis(_) => None,
        }
    }
    match (attribute, operand) {
        (Attribute::Expiration, Operand::Seconds(seconds)) => {
            record.expiration.value().map(|value| value.cmp(seconds))
        }
        (Attribute::InProgressExpiration, Operand::Millis(millis)) => record
            .in_progress_expiration
            .value()
            .map(|value| value.cmp(millis)),
        // No condition compares steps or an event.
        (Attribute::Expiration | Attribute::InProgressExpiration, _) => None,
        (Attribute::Steps | Attribute::Event, _) => None,
        (Attribute::Status, operand) => text(&record.status, Status::as_str, operand),
        (Attribute::Data, operand) => text(&record.data, |data| data.as_str(), operand),
        (Attribute::Validation, operand) => text(&record.validation, String::as_str, operand),
        (Attribute::Owner, operand) => text(&record.owner, OwnerToken::as_str, operand),
        (Attribute::Failure, operand) => text(&record.failure, String::as_str, operand),
        (Attribute::Operation, operand) => text(&record.operation, String::as_str, operand),
        (Attribute::Decision, operand) => text(&record.decision, String::as_str, operand),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
