//! The outcome of a call: executed, replayed or bypassed. What a call of a key would meet.

use std::any::Any;

pub use crate::protocol::Source;

use crate::error::Error;
use crate::record::RecordId;
use crate::time::{EpochMillis, EpochSeconds};

/// A response, and where it comes from.
///
/// `Debug` shows the kind, never the response.
///
/// # Examples
///
/// ```
/// use idempotency_core::outcome::{Outcome, OutcomeKind};
/// use idempotency_core::record::RecordId;
/// let outcome = Outcome::executed("paid", RecordId::new("charge#42"), true);
/// assert!(!outcome.is_replayed());
/// match outcome.kind() {
///     OutcomeKind::Executed { key, stored } => assert_eq!((key.as_str(), *stored), ("charge#42", true)),
///     OutcomeKind::Replayed(replay) => println!("replayed from {:?}", replay.source()),
///     OutcomeKind::Bypassed(why) => println!("unprotected: {why:?}"),
///     _ => {}
/// }
/// assert_eq!(outcome.into_response(), "paid");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Outcome<R> {
    response: R,
    kind: OutcomeKind,
    dropped_writes: bool,
}

/// What a call of a key would meet now, by the record in the store.
///
/// `Debug` shows no response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState<R> {
    /// The handler runs. There is no record, its window or lease has ended, or it is that of a run which failed.
    Free,
    /// The call is refused, or waits: another call runs, or was killed and its lease has not ended.
    InProgress {
        /// When the lease of the other call ends. `None` if it has none that is known, or if it was killed while it undid its steps: the next
        /// call goes on.
        until: Option<EpochMillis>,
    },
    /// An operator has not decided yet. A run under `hold` ended without a result: a call under `hold` is refused, one under `rerun` runs.
    /// Or the steps of the key could not be undone: each call is refused.
    Held,
    /// The call gets this response. Its [`Replay`] says when its window ends.
    Completed(Outcome<R>),
    /// The call ends in [`ResponseUnavailable`](crate::error::ErrorKind::ResponseUnavailable).
    CompletedWithoutResponse,
    /// The call is refused: the key was used with another payload.
    PayloadMismatch,
    /// The call is refused: the record cannot be understood. Says why.
    Corrupt(String),
    /// The handler runs unprotected.
    Bypassed(Bypass),
}

/// Where a response comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutcomeKind {
    /// The handler ran under a claim.
    Executed {
        /// The record's id.
        key: RecordId,
        /// True if the response is stored. Duplicates then get it.
        stored: bool,
    },
    /// An earlier call stored the response. The handler did not run, unless the replay's source is
    /// [`Source::Completion`].
    Replayed(Replay),
    /// The handler ran unprotected.
    Bypassed(Bypass),
}

/// A response that an earlier call stored.
///
/// # Examples
///
/// ```
/// use idempotency_core::outcome::{Replay, Source};
/// use idempotency_core::record::RecordId;
/// let replay = Replay::new(RecordId::new("charge#42"), Source::Store, None).claimed_by("shop::charge");
/// assert_eq!(replay.key().as_str(), "charge#42");
/// assert_eq!(replay.operation(), Some("shop::charge"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    key: RecordId,
    source: Source,
    expires_at: Option<EpochSeconds>,
    operation: Option<String>,
}

/// Why a handler ran unprotected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bypass {
    /// `IDEMPOTENCY_DISABLED` is set.
    Disabled,
    /// The payload has no key, and the operation requires none.
    NoKey,
    /// The store failed before the run, and the operation has `on_store_error = "run-unprotected"`.
    StoreFailed,
}

/// The value of a panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// The end of a call without a response for its caller.
pub(crate) enum NoResponse<E> {
    /// With an error of this framework.
    Refused(Error),
    /// With the handler's own error.
    Failed(E),
    /// With the handler's panic.
    Panicked(Panic),
}

impl<E> NoResponse<E> {
    /// Returns the handler's own response, or the end of the call without one.
    pub(crate) fn of_output<R>(output: Result<Result<R, E>, Panic>) -> Result<R, Self> {
        match output {
            Ok(result) => result.map_err(Self::Failed),
            Err(panic) => Err(Self::Panicked(panic)),
        }
    }
}

impl<R> Outcome<R> {
    fn of(response: R, kind: OutcomeKind) -> Self {
        Self {
            response,
            kind,
            dropped_writes: false,
        }
    }

    /// Returns the same outcome of a handler whose staged writes are dropped.
    pub(crate) fn with_dropped_writes(self) -> Self {
        Self {
            dropped_writes: true,
            ..self
        }
    }

    /// Returns a reference to the response.
    pub fn response(&self) -> &R {
        &self.response
    }

    /// Returns the response.
    pub fn into_response(self) -> R {
        self.response
    }

    /// Returns where the response comes from.
    pub fn kind(&self) -> &OutcomeKind {
        &self.kind
    }

    /// Returns true if an earlier call stored the response.
    pub fn is_replayed(&self) -> bool {
        matches!(self.kind, OutcomeKind::Replayed(_))
    }

    /// Returns true if the handler ran and staged writes that are not applied, because by policy its response is not stored
    /// (`store_when`, a status of HTTP).
    ///
    /// The response is then no result of the call: the key is free, and the call can be made again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::{config::*, engine::{Codec, Errors}, error::Error, example, operation::CompiledOperation};
    /// # use idempotency_core::store::{LedgerEntry, MemoryWrites};
    /// # use std::convert::Infallible;
    /// # let settings = Settings { store_when: Some("@ == 'paid'".into()), ..Settings::default() };
    /// # let operation = CompiledOperation::new("shop::pay", &settings, &Variables::default()).unwrap();
    /// # example::ready(async {
    /// # let backend = example::backend();
    /// # let order = operation.identify("7", None)?;
    /// for (response, dropped) in [("pending", true), ("paid", false)] {
    ///     let run = operation.run(&backend, &order, None, Codec::json(), Errors::new(|error| error), async |call| {
    ///         let pay = LedgerEntry::add("shop", 5);
    ///         call.stage(|writes: &mut MemoryWrites| Ok::<_, Infallible>(writes.push(pay))).unwrap();
    ///         Ok::<_, Error>(response.to_owned())
    ///     });
    ///     // `store_when` is `@ == 'paid'`.
    ///     assert_eq!(run.await?.has_dropped_writes(), dropped);
    /// }
    /// # Ok::<(), Error>(())
    /// # }).unwrap();
    /// ```
    pub fn has_dropped_writes(&self) -> bool {
        self.dropped_writes
    }
}

#[doc(hidden)]
impl<R> Outcome<R> {
    /// Returns the outcome of a handler that ran under a claim.
    pub fn executed(response: R, key: RecordId, stored: bool) -> Self {
        Self::of(response, OutcomeKind::Executed { key, stored })
    }

    /// Returns the outcome of a call that gets a stored response.
    pub fn replayed(response: R, replay: Replay) -> Self {
        Self::of(response, OutcomeKind::Replayed(replay))
    }

    /// Returns the outcome of a handler that ran unprotected.
    pub fn bypassed(response: R, why: Bypass) -> Self {
        Self::of(response, OutcomeKind::Bypassed(why))
    }

    /// Returns the outcome with a replayed response passed through `hook`. Any other response stays as it is.
    #[must_use]
    pub fn on_replay(self, hook: impl FnOnce(R, &Replay) -> R) -> Self {
        let response = match &self.kind {
            OutcomeKind::Replayed(replay) => hook(self.response, replay),
            OutcomeKind::Executed { .. } | OutcomeKind::Bypassed(_) => self.response,
        };
        Self { response, ..self }
    }
}

impl<R> std::fmt::Debug for Outcome<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Outcome").field(&self.kind).finish()
    }
}

impl Replay {
    /// Returns the path of the operation that claimed the key and stored the response, such as `shop::charge`: its first
    /// 128 bytes.
    ///
    /// The path differs from the caller's if the operation was renamed, or if two operations share a `key_prefix`. It is
    /// `None` if the record does not name an operation, like the records that other languages write.
    pub fn operation(&self) -> Option<&str> {
        self.operation.as_deref()
    }

    /// Returns the record's id.
    pub fn key(&self) -> &RecordId {
        &self.key
    }

    /// Returns where the response was found.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns when the window of the response ends, in seconds since the epoch.
    pub fn expires_at(&self) -> Option<EpochSeconds> {
        self.expires_at
    }
}

#[doc(hidden)]
impl Replay {
    /// Returns a replay of the response of `key`.
    pub fn new(key: RecordId, source: Source, expires_at: Option<EpochSeconds>) -> Self {
        Self {
            key,
            source,
            expires_at,
            operation: None,
        }
    }

    /// Returns the same replay, with the path of the operation that claimed the key.
    #[must_use]
    pub fn claimed_by(mut self, operation: impl Into<String>) -> Self {
        self.operation = Some(operation.into());
        self
    }
}
