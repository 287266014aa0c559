//! Why an operator cannot decide about a record.

use std::fmt;

/// Why a decision about a record is refused. Nothing was written.
///
/// Its text follows the name of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Undecided {
    /// The lease of the claim still runs.
    Live,
    /// The record is completed.
    Completed,
    /// The key is free already: the next call runs the handler under every policy.
    Free,
    /// The window of the response has expired, or its end cannot be read.
    WindowExpired,
    /// The response is not JSON.
    NotJson,
    /// The status cannot be understood.
    Unreadable,
    /// It does not say who decided, in at most this many bytes and without control characters.
    By(usize),
    /// It does not say why, in at most this many bytes and without control characters.
    Reason(usize),
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => f.write_str(
                "is a live claim: a run may still be going, and may have its effect after the decision; wait until its lease \
                 ends",
            ),
            Self::Completed => f.write_str(
                "is completed, so there is nothing to decide: duplicates get its response; evict it if the handler must run \
                 again",
            ),
            Self::Free => {
                f.write_str("is free already: the next call runs the handler under every policy")
            }
            Self::WindowExpired => f.write_str(
                "has a window that has expired or that cannot be read, so the response would never be replayed: say how long \
                 to keep it",
            ),
            Self::NotJson => f.write_str("cannot be completed, because the response is not JSON"),
            Self::Unreadable => f.write_str(
                "cannot be decided, because its status is missing or unknown: evict it",
            ),
            Self::By(longest) => write!(
                f,
                "cannot be decided without a name of who decides, of at most {longest} bytes and without control characters"
            ),
            Self::Reason(longest) => write!(
                f,
                "cannot be decided without a reason, of at most {longest} bytes and without control characters"
            ),
        }
    }
}

impl std::error::Error for Undecided {}
