//! Single flight: duplicates in one process share the work of one call.
//!
//! For each key and payload, one call is the leader. A duplicate that finds a leader becomes its follower: it learns how far
//! the leader is, and receives the record that the leader confirmed. The store is still the only authority: a leader can
//! delay a follower or refuse it, but never allows it to run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::request::timeout;
use crate::future::BoxFuture;
use crate::protocol::{CallTerms, InFlight, InFlightKey, Input};
use crate::record::Record;
use crate::time::EpochMillis;

/// The leaders of a process: at most one for each key and payload.
#[derive(Default)]
pub(crate) struct SingleFlight(Mutex<Entries>);

type Entries = BTreeMap<InFlightKey, LeaderReceiver>;

/// Receives the progress of a leader.
type LeaderReceiver = watch::Receiver<Progress>;

/// How far a leader is.
#[derive(Debug)]
// A record in a box would cost each leader an allocation.
#[allow(clippy::large_enum_variant)]
enum Progress {
    InFlight(InFlight),
    /// It has finished with this confirmed record.
    Done(Record),
}

/// One call's part in single flight. The call leaves single flight when the guard is dropped.
pub(super) struct FlightGuard<'a> {
    single_flight: &'a SingleFlight,
    key: InFlightKey,
    role: Role,
}

enum Role {
    /// Neither leads nor follows.
    Solo,
    /// Sends its progress to its followers.
    Leader(watch::Sender<Progress>),
    Follower {
        leader: LeaderReceiver,
        /// True if the last wait for the leader timed out.
        timed_out: bool,
    },
}

impl SingleFlight {
    /// Returns the guard of a call that neither leads nor follows yet.
    pub(super) fn guard(&self, call: &CallTerms) -> FlightGuard<'_> {
        FlightGuard {
            single_flight: self,
            key: InFlightKey::of(call),
            role: Role::Solo,
        }
    }

    /// Returns the map of leaders. A panic cannot leave it half written, so a poisoned lock is still good.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FlightGuard<'_> {
    /// Makes this call a follower, and returns its leader's progress. If there is no leader, this call becomes the leader with
    /// progress `mine`. A call that leads, now or already, gets `Input::Local(None)`.
    pub(super) fn join(&mut self, mine: InFlight) -> Input {
        let mut entries = self.single_flight.entries();
        if let Some(leader) = entries.get(&self.key) {
            if self.leads(leader) {
                return Input::Local(None);
            }
            let mut leader = leader.clone();
            // Marks this value as seen, so that `wait` wakes for the next change only.
            let progress = match *leader.borrow_and_update() {
                Progress::InFlight(in_flight) => Some(in_flight),
                Progress::Done(_) => None,
            };
            if let Some(progress) = progress {
                self.role = Role::Follower {
                    leader,
                    timed_out: false,
                };
                return Input::LeaderProgress(progress);
            }
        }
        self.role = self.lead(&mut entries, mine);
        Input::Local(None)
    }

    /// Publishes this call's progress to its followers.
    ///
    /// A call that is not the leader becomes it first in three cases: there is no leader, `mine` supersedes the leader, or this call
    /// timed out while it waited for the leader.
    pub(super) fn publish(&mut self, mine: InFlight, now: EpochMillis) {
        if let Role::Leader(followers) = &self.role {
            let changed = followers.send_if_modified(|progress| {
                let same = matches!(progress, Progress::InFlight(before) if *before == mine);
                *progress = Progress::InFlight(mine);
                !same
            });
            if changed {
                // Another call may have become the leader while this one was less advanced.
                let mut entries = self.single_flight.entries();
                let receiver = followers.subscribe();
                if is_superseded_by(entries.get(&self.key), &mine, now) {
                    entries.insert(self.key.clone(), receiver);
                }
            }
            return;
        }
        // After a timeout this call takes over as leader, so that later duplicates do not wait for the old one too.
        let abandoned = match std::mem::replace(&mut self.role, Role::Solo) {
            Role::Follower {
                leader,
                timed_out: true,
            } => Some(leader),
            _ => None,
        };
        let mut entries = self.single_flight.entries();
        let leader = entries.get(&self.key);
        let is_abandoned = leader
            .zip(abandoned)
            .is_some_and(|(leader, abandoned)| leader.same_channel(&abandoned));
        if is_abandoned || is_superseded_by(leader, &mine, now) {
            self.role = self.lead(&mut entries, mine);
        }
    }

    /// Returns true if `leader` is this call.
    fn leads(&self, leader: &LeaderReceiver) -> bool {
        match &self.role {
            Role::Leader(followers) => leader.same_channel(&followers.subscribe()),
            Role::Solo | Role::Follower { .. } => false,
        }
    }

    fn lead(&self, entries: &mut Entries, mine: InFlight) -> Role {
        let (followers, receiver) = watch::channel(Progress::InFlight(mine));
        entries.insert(self.key.clone(), receiver);
        Role::Leader(followers)
    }

    /// Waits until the leader finishes, its progress changes, or the timer ends.
    pub(super) async fn wait(
        &mut self,
        timer: &mut (dyn FnMut() -> BoxFuture<'static, ()> + Send),
    ) -> Input {
        let Role::Follower { leader, timed_out } = &mut self.role else {
            // Not a follower: there is nothing to wait for.
            return Input::LeaderDone(None);
        };
        let changed = timeout(Box::pin(leader.changed()), timer).await;
        *timed_out = changed.is_none();
        // Read from the channel itself: the leader may have published something and left since.
        let left = leader.has_changed().is_err();
        match &*leader.borrow_and_update() {
            Progress::Done(record) => Input::LeaderDone(Some(record.clone())),
            Progress::InFlight(_) if left => Input::LeaderDone(None),
            Progress::InFlight(in_flight) => Input::LeaderProgress(*in_flight),
        }
    }

    /// Leaves single flight, and hands the confirmed record, if there is one, to the followers of this call.
    pub(super) fn finish(mut self, confirmed: Option<&Record>) {
        if let Some(followers) = self.leave()
            && followers.receiver_count() > 0
            && let Some(record) = confirmed
        {
            followers.send_replace(Progress::Done(record.clone()));
        }
    }

    /// Removes this call from the map. Returns the sender to its followers if it was a leader.
    fn leave(&mut self) -> Option<watch::Sender<Progress>> {
        let Role::Leader(followers) = std::mem::replace(&mut self.role, Role::Solo) else {
            return None;
        };
        let mut entries = self.single_flight.entries();
        let receiver = followers.subscribe();
        // Another call may be the leader by now. It stays.
        if let Some((key, leader)) = entries.remove_entry(&self.key)
            && !leader.same_channel(&receiver)
        {
            entries.insert(key, leader);
        }
        Some(followers)
    }
}

/// Returns true if `candidate` should replace the leader: there is none, its lease has expired, or it is less advanced.
fn is_superseded_by(
    leader: Option<&LeaderReceiver>,
    candidate: &InFlight,
    now: EpochMillis,
) -> bool {
    leader.is_none_or(|leader| match *leader.borrow() {
        Progress::InFlight(in_flight) => in_flight.is_superseded_by(candidate, now),
        // A leader leaves the map before it is done.
        Progress::Done(_) => true,
    })
}

/// A call that is dropped before it finishes shares nothing: its followers see that the sender is gone.
impl Drop for FlightGuard<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
