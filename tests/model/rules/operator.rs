//! Deliberate faults of an operator's decision.

use idempotency_core::protocol::Write;
use idempotency_core::protocol::condition::{Condition, Operand};
use idempotency_core::protocol::decision::Decided;
use idempotency_core::record::{Attribute, Field, Status};

use super::Rules;

/// A decision is applied to any claim, not only to the one that the operator saw.
pub(crate) struct DecidesAboutAnyClaim;

impl Rules for DecidesAboutAnyClaim {
    fn decides(&self, decided: Decided) -> (Write, Condition) {
        let status = Operand::Text(Status::InProgress.as_str().to_owned());
        (decided.write, Condition::Equals(Attribute::Status, status))
    }
}

/// A freed key counts as one whose run reported that it had no effect.
pub(crate) struct DecisionReports;

impl Rules for DecisionReports {
    fn decides(&self, decided: Decided) -> (Write, Condition) {
        let write = match decided.write {
            Write::Update(mut change) if change.set.failure.exists() => {
                change.set.failure = Field::Value("E".to_owned());
                Write::Update(change)
            }
            other => other,
        };
        (write, decided.condition)
    }
}

/// A decision leaves the token of the owner in the record.
pub(crate) struct DecisionKeepsTheOwner;

impl Rules for DecisionKeepsTheOwner {
    fn decides(&self, decided: Decided) -> (Write, Condition) {
        let write = match decided.write {
            Write::Update(mut change) => {
                change.remove.retain(|removed| *removed != Attribute::Owner);
                Write::Update(change)
            }
            other => other,
        };
        (write, decided.condition)
    }
}
