//! The promises, by name.

macro_rules! promises {
    ($($promise:ident $number:literal $text:literal;)+) => {
        /// A promise that a history can break.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Promise {
            $(#[doc = $text] $promise),+
        }

        impl Promise {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$promise),+];

            /// Returns the number of the promise of `docs/reference/protocol.md` that this is a part of.
            pub const fn number(self) -> u8 {
                match self {
                    $(Self::$promise => $number),+
                }
            }

            /// Returns what holds.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$promise => $text),+
                }
            }
        }
    };
}

promises! {
    OneResponse 1 "callers that get a response get the same one";
    ShortWindow 1 "a response is kept until the end of its window";
    StoredResponse 1 "a response that binds other callers is stored";
    WindowExpired 1 "no response is replayed after its window has ended by the caller's clock";
    LateOwner 2 "nothing live is overwritten, by a late owner or by a claim";
    EvictedComesBack 2 "no call writes a response anew that was stored and evicted";
    RunWithoutClaim 3 "no run without a claim";
    RunOnExpiredLease 3 "no run starts on an expired lease";
    HeldThoughGone 3 "no run counts on a lease that its claim does not have";
    OneRunPerCall 3 "a call runs its handler at most once";
    AnotherPayload 4 "no caller gets the response of another payload";
    StepOfAnotherPayload 4 "no run uses the step of another payload";
    OwnWriteInProgress 5 "no caller gets \"in progress\" because of its own write";
    OtherPayloadInProgress 5 "no caller gets \"in progress\" because of another payload";
    Stuck 6 "no key is stuck past its lease";
    ClaimLeftBehind 6 "a call that fails leaves no claim behind without an attempt to release it";
    WaitsTooLong 6 "no call waits beyond its own time";
    KeptInProgress 6 "under hold a run that has ended leaves no lease that runs, unless its last request failed";
    SecondRunUnderHold 7 "under hold no call runs after a run that may have started";
    HoldTakesOver 7 "a call that holds takes over no claim";
    FirstThoughUnreported 7 "no run gets First after one whose effect may have happened and was not reported";
    StagedTwice 8 "staged writes are applied at most once in a window, and at most once for each run";
    StagedAlone 8 "staged writes are applied if and only if their response is stored";
    RejectedThoughApplied 8 "no caller gets \"rejected\" if its staged writes were applied, or are later";
    StepAgain 9 "no run whose claim came after a step was recorded runs that step";
    StepTwiceUnderHold 9 "under hold, a step that may have happened never runs again";
    StepAfterUndo 10 "no run whose claim came after a decision to undo runs a step";
    UndoneEarly 10 "no step is undone before that is decided, and none before a later one";
    UndoneAgain 10 "no run whose claim came after an undo was recorded repeats it";
    NotUndone 10 "the final response of a decision to undo is stored when every recorded step is undone, and no step of its run is without a record";
}

/// A set of promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promises(u32);

impl Promises {
    /// Returns all promises.
    pub const fn all() -> Self {
        Self(u32::MAX)
    }

    /// Returns no promise.
    pub const fn none() -> Self {
        Self(0)
    }

    /// Returns the set with this promise.
    #[must_use]
    pub const fn with(self, promise: Promise) -> Self {
        Self(self.0 | 1 << promise as u32)
    }

    /// Returns the set without this promise, if `leaves_out`.
    #[must_use]
    pub const fn without(self, promise: Promise, leaves_out: bool) -> Self {
        Self(self.0 & !((leaves_out as u32) << promise as u32))
    }

    /// Returns true if this promise is in the set.
    pub const fn has(self, promise: Promise) -> bool {
        self.0 & 1 << promise as u32 != 0
    }

    /// Returns true if no promise is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
