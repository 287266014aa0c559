//! One call of an operation, as the protocol sees it.

use super::policy::Policy;
use crate::owner::OwnerToken;
use crate::record::{RecordId, StoredEvent};
use crate::time::EpochMillis;

/// One call of an operation: its identity, its deadline and its policy.
///
/// # Examples
///
/// ```
/// use idempotency_core::owner::OwnerToken;
/// use idempotency_core::protocol::{CallTerms, policy::Policy};
/// use idempotency_core::record::RecordId;
/// let call = CallTerms {
///     id: RecordId::new("payments.charge#42"),
///     owner: OwnerToken::from_bytes([1; 16]),
///     validation: None,
///     deadline: None,
///     operation: None,
///     event: None,
///     policy: Policy::default(),
/// };
/// assert!(call.deadline.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallTerms {
    /// The record's id.
    pub id: RecordId,
    /// This call's own token: the same in all its tries, never used for another call.
    pub owner: OwnerToken,
    /// The validation digest of the payload, if the operation validates.
    pub validation: Option<String>,
    /// When the invocation ends, if known. An expired deadline is kept, not treated as unknown.
    pub deadline: Option<EpochMillis>,
    /// The path of the operation. The record names its first 128 bytes. No rule of the protocol depends on it.
    pub operation: Option<String>,
    /// What the record keeps of the event. No rule of the protocol depends on it.
    pub event: Option<StoredEvent>,
    /// The operation's policy.
    pub policy: Policy,
}

impl CallTerms {
    /// Returns the end of the lease of a claim that is made now.
    pub(super) fn lease_end(&self, now: EpochMillis) -> EpochMillis {
        self.deadline.unwrap_or_else(|| now.plus(self.policy.lease))
    }
}
