//! Updates that count once: an item knows the keys of the updates that were applied to it, in one request and without a second
//! item.
//!
//! A counter is fed by events that can be delivered again. [`Once::update`] adds the user's own update expression and condition to
//! one UpdateItem, which is applied only if the item does not know the key of the event yet, and which makes the item know it.
//!
//! **What is promised.** Of all updates of one item with one key that are built within the lifetime of the [plan](plan()), at most one
//! is applied. An update is built when [`OnceUpdate::send`] or [`OnceUpdate::prepare`] is called, and the lifetime begins when the
//! update that was applied was built. It holds for parallel writers, lost replies, and for writers whose clocks differ by at most
//! [`Plan::clock_skew`].
//!
//! - It holds however late a request arrives: after a pause of the process, too, and after the key was removed from the item.
//! - A key is known for at most [`Estimate::remembered_at_most`]: about 1.4 times the lifetime.
//! - A writer whose clock, with the time that a request takes, is behind by more than the skew can be refused
//!   ([`OnceError::ClockBehind`]), and applies nothing.
//! - A writer whose clock is ahead by more forgets keys early: the lifetime is shorter by the excess. Writers with the right time are
//!   then refused as too far behind, until that bucket of time comes or an operator removes the attributes of the keys.
//!
//! **What it costs.** DynamoDB bills each write by the size of the whole item, and a refused one too. A key takes 13 bytes, so each 79
//! keys add one write unit to each write. [`plan`](plan()) says what that means, and [`Once::new`] refuses a rate that the item
//! cannot hold. For many keys a marker item in the same transaction is cheaper.
//!
//! All writers of the item must use the same plan: lifetime, skew, key bytes and attribute names. A put of the whole item
//! by another program removes the keys.
//!
//! # Examples
//!
//! ```no_run
//! use aws_sdk_dynamodb::types::AttributeValue;
//! use dynamodb_writes::once::{self, Once, OnceOutcome};
//! use std::time::Duration;
//!
//! # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! // The busiest customer has an event in ten seconds, and an event is delivered again for an hour at most.
//! let once = Once::new(once::plan(0.1, Duration::from_secs(3600)).own_bytes(300))?;
//!
//! let customer = [("id", AttributeValue::S("c-1".into()))];
//! let count = once.update("usage", customer, "evt-1").expression("ADD units :n").value(":n", AttributeValue::N("5".into()));
//! match count.send(&client).await? {
//!     OnceOutcome::Applied(_) => println!("counted"),
//!     OnceOutcome::AlreadyApplied(_) => println!("counted before"),
//! }
//! # Ok(())
//! # }
//! ```

mod error;
mod layout;
mod outcome;
mod plan;
mod prepared;
mod stored;
mod update;

pub use error::{ClockBehind, ItemFull, OnceConditionFailed, OnceError, OtherPlan};
pub use outcome::{AlreadyApplied, Applied, OnceOutcome};
pub use plan::{Estimate, Plan, PlanError, plan};
pub use prepared::{OnceRefusal, PreparedUpdate};
pub use update::OnceUpdate;

pub use crate::error::{InvalidExpression, RequestError};

use std::fmt;
use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::clock::Clock;
use idempotency_core::system::SystemClock;

use crate::expression::{self, UserExpressions};
use layout::Layout;

/// Makes updates that count once, by one plan. Clones are cheap.
///
/// # Examples
///
/// ```
/// use dynamodb_writes::once::{self, Once, PlanError};
/// use std::time::Duration;
///
/// let day = Duration::from_secs(24 * 3600);
/// assert!(Once::new(once::plan(0.01, day)).is_ok());
/// // Ten writes a second for a day: 12 MB of keys.
/// assert!(matches!(Once::new(once::plan(10.0, day)), Err(PlanError::DoesNotHold(_))));
/// ```
#[derive(Clone)]
pub struct Once {
    layout: Layout,
    clock: Arc<dyn Clock>,
}

impl Once {
    /// Returns an `Once` for this plan.
    ///
    /// # Errors
    ///
    /// [`PlanError::DoesNotHold`] if an item cannot hold the planned rate, with the numbers. [`PlanError::Invalid`] if a number is
    /// out of its range.
    pub fn new(plan: Plan) -> Result<Self, PlanError> {
        let layout = plan.layout()?;
        let estimate = plan.estimate()?;
        if !estimate.holds() {
            return Err(PlanError::DoesNotHold(Box::new(estimate)));
        }
        let clock = Arc::new(SystemClock);
        Ok(Self { layout, clock })
    }

    /// Sets the clock, for tests. The operating system's by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Starts an update of an item that is applied at most once for each `idempotency_key`.
    ///
    /// The key is the same in every try: the id of the event, or of the message. It can have any length; its digest is stored.
    /// Two updates of one event to different items may share it.
    pub fn update<N: Into<String>>(
        &self,
        table: impl Into<String>,
        key: impl IntoIterator<Item = (N, AttributeValue)>,
        idempotency_key: impl AsRef<[u8]>,
    ) -> OnceUpdate {
        OnceUpdate {
            layout: self.layout.clone(),
            clock: Arc::clone(&self.clock),
            table: table.into(),
            key: expression::key(key),
            idempotency_key: idempotency_key.as_ref().to_vec(),
            user: UserExpressions::default(),
            returns_item: false,
        }
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let once = &mut f.debug_struct("Once");
        once.field("layout", &self.layout).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
