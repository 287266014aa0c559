//! One call of an operation, as the protocol sees it.

use super::policy::Policy;
use crate::owner::OwnerToken;
use crate::record::RecordId;
use crate::time::EpochMillis;

/// One call of an operation: its identity, and until when it may work.
///
/// ```
/// use idempotency_core::owner::OwnerToken;
/// use idempotency_core::protocol::{Call, policy::Policy};
/// use idempotency_core::record::RecordId;
/// let call = Call {
///     id: RecordId::new("payments.charge#42"),
///     owner: OwnerToken::from_bytes([1; 16]),
///     validation: None,
///     deadline: None,
///     operation: None,
///     policy: Policy::default(),
/// };
/// assert!(call.deadline.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The record's id.
    pub id: RecordId,
    /// This call's own token: the same in all its tries, never used for another call.
    pub owner: OwnerToken,
    /// The hash of the validated part of the payload, where the operation validates.
    pub validation: Option<String>,
    /// When the invocation ends, where that is known. A deadline that has come is still a deadline.
    pub deadline: Option<EpochMillis>,
    /// The path of the operation, of which the record of its claim names the first 128 bytes. No rule asks for it.
    pub operation: Option<String>,
    /// The operation's policy.
    pub policy: Policy,
}
