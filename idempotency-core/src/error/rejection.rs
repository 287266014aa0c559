//! Why a transaction was rejected.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;

/// The staged writes for which a transaction was rejected. Nothing of the transaction was applied.
///
/// It is a cause of the error [`TransactionRejected`](super::ErrorKind::TransactionRejected). Its text names each write
/// by its position and its table, never by its content.
///
/// # Examples
///
/// ```
/// use idempotency_core::store::{RejectedWrite, Rejection};
/// let rejection = Rejection::new(2, vec![RejectedWrite::new(0, "update of table `accounts`", RejectedWrite::CONDITION)]);
/// assert_eq!(rejection.to_string(), "write 1 of 2 (update of table `accounts`): ConditionalCheckFailed");
/// assert!(rejection.writes()[0].is_condition());
/// ```
#[derive(Debug)]
pub struct Rejection {
    staged: usize,
    writes: Vec<RejectedWrite>,
}

/// A staged write that was rejected.
///
/// Neither `Debug` nor `Display` shows the item.
pub struct RejectedWrite {
    index: usize,
    what: String,
    code: String,
    message: Option<String>,
    item: Option<Box<dyn Any + Send + Sync>>,
}

impl Rejection {
    /// Returns the rejection of these writes. `staged` is the number of all staged writes.
    pub fn new(staged: usize, writes: Vec<RejectedWrite>) -> Self {
        Self { staged, writes }
    }

    /// Returns the writes that were rejected, in the order in which they were staged.
    pub fn writes(&self) -> &[RejectedWrite] {
        &self.writes
    }

    /// Returns true if the condition of every rejected write did not hold: the data does not allow the change. If it is false, the store
    /// does not accept a write, and the program or its permissions must be corrected.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::store::{RejectedWrite, Rejection};
    /// let poor = RejectedWrite::new(0, "update of table `accounts`", RejectedWrite::CONDITION);
    /// assert!(Rejection::new(2, vec![poor]).is_by_conditions());
    /// let wrong = RejectedWrite::new(1, "put of table `orders`", "ValidationError");
    /// assert!(!Rejection::new(2, vec![wrong]).is_by_conditions());
    /// ```
    #[doc(hidden)]
    pub fn is_by_conditions(&self) -> bool {
        !self.writes.is_empty() && self.writes.iter().all(RejectedWrite::is_condition)
    }

    /// Returns the write that was staged as the `index`th, counted from zero, if it was rejected.
    pub fn write(&self, index: usize) -> Option<&RejectedWrite> {
        self.writes.iter().find(|write| write.index == index)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, write) in self.writes.iter().enumerate() {
            let separator = if position == 0 { "" } else { "; " };
            let number = write.index + 1;
            write!(
                f,
                "{separator}write {number} of {} ({}): {}",
                self.staged, write.what, write.code
            )?;
            if let Some(message) = &write.message {
                write!(f, ": {message}")?;
            }
        }
        Ok(())
    }
}

impl StdError for Rejection {}

impl RejectedWrite {
    /// The code of a write whose condition did not hold.
    pub const CONDITION: &'static str = "ConditionalCheckFailed";

    /// Returns the write that was staged as the `index`th, counted from zero. `what` names it without its content, and `code` is
    /// the store's reason.
    pub fn new(index: usize, what: impl Into<String>, code: impl Into<String>) -> Self {
        Self {
            index,
            what: what.into(),
            code: code.into(),
            message: None,
            item: None,
        }
    }

    /// Returns the same write with the store's text, which must not contain a part of an item.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Returns the same write with the current item, for which its condition did not hold.
    #[must_use]
    pub fn with_item(mut self, item: impl Any + Send + Sync) -> Self {
        self.item = Some(Box::new(item));
        self
    }

    /// Returns the position of the write among the staged ones, counted from zero.
    #[doc(hidden)]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the store's reason, such as `ConditionalCheckFailed`.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Returns true if its condition did not hold.
    pub fn is_condition(&self) -> bool {
        self.code == Self::CONDITION
    }

    /// Returns the current item, if the write asked for it and the store returned it in this form.
    ///
    /// The store chooses the form, and its documentation says which one it is.
    ///
    /// # Examples
    ///
    /// ```
    /// # use idempotency_core::store::RejectedWrite;
    /// let write = RejectedWrite::new(0, "change of the ledger", RejectedWrite::CONDITION).with_item(7_i64);
    /// assert_eq!(write.item::<i64>(), Some(&7));
    /// assert!(!format!("{write:?}").contains('7'));
    /// ```
    pub fn item<T: Any>(&self) -> Option<&T> {
        self.item.as_ref()?.downcast_ref()
    }
}

impl fmt::Debug for RejectedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectedWrite")
            .field("index", &self.index)
            .field("what", &self.what)
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}
