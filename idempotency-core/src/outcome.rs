//! What a call came to: executed, replayed or bypassed.

use crate::protocol::Source;
use crate::record::RecordId;
use crate::time::EpochSeconds;

/// An answer, and how it came about.
///
/// ```
/// use idempotency_core::outcome::{Bypass, OutcomeKind, Outcome};
/// let outcome = Outcome::bypassed(42, Bypass::Disabled);
/// assert!(!outcome.is_replayed());
/// assert_eq!(outcome.into_response(), 42);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Outcome<R> {
    response: R,
    kind: OutcomeKind,
}

/// How an answer came about.
///
/// ```
/// use idempotency_core::{outcome::{OutcomeKind, Outcome}, record::RecordId};
/// let outcome = Outcome::executed("paid", RecordId::new("charge#42"), true);
/// if let OutcomeKind::Executed { key, stored } = outcome.kind() {
///     assert_eq!((key.as_str(), *stored), ("charge#42", true));
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutcomeKind {
    /// The handler ran under a claim.
    Executed {
        /// Its key.
        key: RecordId,
        /// Whether duplicates are given this answer.
        stored: bool,
    },
    /// The answer of an earlier call.
    Replayed(Replay),
    /// The handler ran unprotected.
    Bypassed(Bypass),
}

/// An answer that was stored by an earlier call.
///
/// ```
/// use idempotency_core::outcome::Replay;
/// use idempotency_core::protocol::Source;
/// use idempotency_core::record::RecordId;
/// let replay = Replay::new(RecordId::new("charge#42"), Source::Store, None);
/// assert_eq!(replay.key().as_str(), "charge#42");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    key: RecordId,
    source: Source,
    expires_at: Option<EpochSeconds>,
    operation: Option<String>,
}

/// Why a handler ran unprotected.
///
/// ```
/// use idempotency_core::outcome::{Bypass, OutcomeKind, Outcome};
/// let outcome = Outcome::bypassed("paid", Bypass::NoKey);
/// assert!(matches!(outcome.kind(), OutcomeKind::Bypassed(Bypass::NoKey)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bypass {
    /// `IDEMPOTENCY_DISABLED` is set.
    Disabled,
    /// The payload has no key, and none is required.
    NoKey,
}

impl<R> Outcome<R> {
    /// An answer of a handler that ran under a claim.
    ///
    /// ```
    /// # use idempotency_core::{outcome::Outcome, record::RecordId};
    /// assert!(!Outcome::executed(1, RecordId::new("a#1"), true).is_replayed());
    /// ```
    pub fn executed(response: R, key: RecordId, stored: bool) -> Self {
        Self {
            response,
            kind: OutcomeKind::Executed { key, stored },
        }
    }

    /// A stored answer.
    ///
    /// ```
    /// # use idempotency_core::{outcome::*, protocol::Source, record::RecordId};
    /// let replay = Replay::new(RecordId::new("a#1"), Source::Cache, None);
    /// assert!(Outcome::replayed(1, replay).is_replayed());
    /// ```
    pub fn replayed(response: R, replay: Replay) -> Self {
        Self {
            response,
            kind: OutcomeKind::Replayed(replay),
        }
    }

    /// An answer of a handler that ran unprotected.
    ///
    /// ```
    /// # use idempotency_core::outcome::*;
    /// assert_eq!(Outcome::bypassed(1, Bypass::NoKey).kind(), &OutcomeKind::Bypassed(Bypass::NoKey));
    /// ```
    pub fn bypassed(response: R, why: Bypass) -> Self {
        Self {
            response,
            kind: OutcomeKind::Bypassed(why),
        }
    }

    /// The answer.
    ///
    /// ```
    /// # use idempotency_core::outcome::*;
    /// assert_eq!(Outcome::bypassed(1, Bypass::NoKey).response(), &1);
    /// ```
    pub fn response(&self) -> &R {
        &self.response
    }

    /// The answer alone.
    ///
    /// ```
    /// # use idempotency_core::outcome::*;
    /// assert_eq!(Outcome::bypassed(1, Bypass::NoKey).into_response(), 1);
    /// ```
    pub fn into_response(self) -> R {
        self.response
    }

    /// How the answer came about.
    ///
    /// ```
    /// # use idempotency_core::{outcome::*, record::RecordId};
    /// let outcome = Outcome::executed(1, RecordId::new("a#1"), true);
    /// assert!(matches!(outcome.kind(), OutcomeKind::Executed { stored: true, .. }));
    /// ```
    pub fn kind(&self) -> &OutcomeKind {
        &self.kind
    }

    /// Whether the answer is an earlier call's.
    ///
    /// ```
    /// # use idempotency_core::outcome::*;
    /// assert!(!Outcome::bypassed(1, Bypass::NoKey).is_replayed());
    /// ```
    pub fn is_replayed(&self) -> bool {
        matches!(self.kind, OutcomeKind::Replayed(_))
    }

    /// The outcome with a replayed answer passed through `hook`; other answers stay as they are.
    ///
    /// ```
    /// # use idempotency_core::{outcome::*, protocol::Source, record::RecordId};
    /// let replay = Replay::new(RecordId::new("a#1"), Source::Store, None);
    /// let outcome = Outcome::replayed(1, replay).on_replay(|response, _| response + 1);
    /// assert_eq!(outcome.into_response(), 2);
    /// ```
    #[must_use]
    pub fn on_replay(self, hook: impl FnOnce(R, &Replay) -> R) -> Self {
        let response = match &self.kind {
            OutcomeKind::Replayed(replay) => hook(self.response, replay),
            OutcomeKind::Executed { .. } | OutcomeKind::Bypassed(_) => self.response,
        };
        Self {
            response,
            kind: self.kind,
        }
    }
}

/// Shows how the answer came about, never the answer.
impl<R> std::fmt::Debug for Outcome<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Outcome").field(&self.kind).finish()
    }
}

impl Replay {
    /// A replay of the answer under `key`.
    ///
    /// ```
    /// # use idempotency_core::{outcome::Replay, protocol::Source, record::RecordId};
    /// assert_eq!(Replay::new(RecordId::new("a#1"), Source::Cache, None).source(), Source::Cache);
    /// ```
    pub fn new(key: RecordId, source: Source, expires_at: Option<EpochSeconds>) -> Self {
        Self {
            key,
            source,
            expires_at,
            operation: None,
        }
    }

    /// Returns the same replay, with the path of the operation that claimed the key.
    ///
    /// ```
    /// # use idempotency_core::{outcome::Replay, protocol::Source, record::RecordId};
    /// let replay = Replay::new(RecordId::new("a#1"), Source::Store, None).claimed_by("shop::charge");
    /// assert_eq!(replay.operation(), Some("shop::charge"));
    /// ```
    #[must_use]
    pub fn claimed_by(mut self, operation: impl Into<String>) -> Self {
        self.operation = Some(operation.into());
        self
    }

    /// Returns the path of the operation that claimed the key and stored the response, such as `shop::charge`: its first
    /// 128 bytes.
    ///
    /// It is another path than the caller's where the operation was renamed, or where two operations share a `key_prefix`.
    /// `None` where the record does not name an operation, as one that another language wrote.
    ///
    /// ```
    /// # use idempotency_core::{outcome::Replay, protocol::Source, record::RecordId};
    /// assert_eq!(Replay::new(RecordId::new("a#1"), Source::Store, None).operation(), None);
    /// ```
    pub fn operation(&self) -> Option<&str> {
        self.operation.as_deref()
    }

    /// The key.
    ///
    /// ```
    /// # use idempotency_core::{outcome::Replay, protocol::Source, record::RecordId};
    /// assert_eq!(Replay::new(RecordId::new("a#1"), Source::Store, None).key().as_str(), "a#1");
    /// ```
    pub fn key(&self) -> &RecordId {
        &self.key
    }

    /// Where the answer was found.
    ///
    /// ```
    /// # use idempotency_core::{outcome::Replay, protocol::Source, record::RecordId};
    /// assert_eq!(Replay::new(RecordId::new("a#1"), Source::Store, None).source(), Source::Store);
    /// ```
    pub fn source(&self) -> Source {
        self.source
    }

    /// When the window of the answer ends, in seconds since the epoch.
    ///
    /// ```
    /// # use idempotency_core::{outcome::Replay, protocol::Source, record::RecordId};
    /// assert_eq!(Replay::new(RecordId::new("a#1"), Source::Store, None).expires_at(), None);
    /// ```
    pub fn expires_at(&self) -> Option<EpochSeconds> {
        self.expires_at
    }
}
