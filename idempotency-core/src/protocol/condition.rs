//! Conditions of writes, as data: judged here, by the memory store and by `classify`, and rendered by every other store.
//!
//! One definition serves all three, so a store and the judge cannot disagree about what can be claimed.

use crate::owner::OwnerToken;
use crate::protocol::policy::OnTimeout;
use crate::record::{Attribute, Field, Record, Status};
use crate::time::{EpochMillis, EpochSeconds};

/// What must hold of the record that is there (or of there being none) for a write to be applied.
///
/// Attributes behave as in DynamoDB: a comparison with a missing attribute, or with one of another type, does not hold,
/// except [`Differs`](Self::Differs), which then does.
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
    /// The attribute is there.
    Exists(Attribute),
    /// The attribute is not there.
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

/// A value that an attribute is compared with. Seconds meet seconds alone, and milliseconds milliseconds.
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

/// Whether a claim may replace the record that is there. The claim's condition and the judge use this one predicate.
///
/// ```
/// use idempotency_core::protocol::condition::claimable;
/// use idempotency_core::protocol::policy::OnTimeout;
/// use idempotency_core::time::EpochMillis;
/// assert!(claimable(EpochMillis::new(0), OnTimeout::Rerun).holds(None));
/// ```
pub fn claimable(now: EpochMillis, on_timeout: OnTimeout) -> Condition {
    use Attribute::{Expiration, Failure, InProgressExpiration, Status as StatusAttribute};
    let expired = || Condition::Below(Expiration, Operand::Seconds(now.floor_to_seconds()));
    let in_progress = || Condition::Equals(StatusAttribute, Operand::status(&Status::InProgress));
    let not_in_progress =
        || Condition::Differs(StatusAttribute, Operand::status(&Status::InProgress));
    let lease_over = || Condition::Below(InProgressExpiration, Operand::Millis(now));
    match on_timeout {
        OnTimeout::Rerun => Condition::Any(vec![
            Condition::NoRecord,
            // A window can be shorter than a run: an expired record in progress is still live while its lease runs.
            Condition::All(vec![
                expired(),
                Condition::Any(vec![
                    not_in_progress(),
                    Condition::Missing(InProgressExpiration),
                    lease_over(),
                ]),
            ]),
            Condition::All(vec![in_progress(), lease_over()]),
        ]),
        // A run that may have started is not run again: only a failure that was recorded frees its claim.
        OnTimeout::Hold => Condition::Any(vec![
            Condition::NoRecord,
            Condition::All(vec![expired(), not_in_progress()]),
            Condition::All(vec![in_progress(), Condition::Exists(Failure)]),
        ]),
    }
}

/// Whether the record is still the claim of `owner`: the fence around completions and releases.
///
/// ```
/// use idempotency_core::owner::OwnerToken;
/// use idempotency_core::protocol::condition::held_by;
/// assert!(!held_by(&OwnerToken::from_bytes([1; 16])).holds(None));
/// ```
pub fn held_by(owner: &OwnerToken) -> Condition {
    Condition::All(vec![
        Condition::Equals(Attribute::Owner, Operand::Text(owner.as_str().to_owned())),
        Condition::Equals(Attribute::Status, Operand::status(&Status::InProgress)),
    ])
}

impl Operand {
    fn status(status: &Status) -> Self {
        Self::Text(status.as_str().to_owned())
    }
}

impl Condition {
    /// Whether the condition holds of a record, or of there being none.
    ///
    /// ```
    /// # use idempotency_core::protocol::condition::Condition;
    /// # use idempotency_core::record::{Attribute, Record};
    /// assert!(Condition::Missing(Attribute::Owner).holds(Some(&Record::default())));
    /// ```
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
    }
}

/// How the attribute stands to the operand; `None` where the two cannot be compared.
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
        (Attribute::Expiration | Attribute::InProgressExpiration, _) => None,
        (Attribute::Status, operand) => text(&record.status, Status::as_str, operand),
        (Attribute::Data, operand) => text(&record.data, |data| data.as_str(), operand),
        (Attribute::Validation, operand) => text(&record.validation, String::as_str, operand),
        (Attribute::Owner, operand) => text(&record.owner, OwnerToken::as_str, operand),
        (Attribute::Failure, operand) => text(&record.failure, String::as_str, operand),
        (Attribute::Operation, operand) => text(&record.operation, String::as_str, operand),
    }
}
