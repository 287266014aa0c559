//! Single flight: duplicates in one process share the work of one call.
//!
//! For each key and payload, one call is the leader. A duplicate that finds a leader becomes its follower: it learns how far
//! the leader is, and receives the record that the leader confirmed. The store is still the only authority: a leader can
//! delay a follower or refuse it, but never allows it to run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::request::timeout;
use crate::future::BoxFuture;
use crate::protocol::{CallTerms, InFlight, InFlightKey, Input};
use crate::record::Record;
use crate::time::EpochMillis;

/// The leaders of a process: at most one for each key and payload.
#[derive(Default)]
pub(crate) struct SingleFlight(Mutex<Entries>);

type Entries = BTreeMap<InFlightKey, Arc<Leader>>;

/// A call that leads.
struct Leader(Mutex<Leading>);

struct Leading {
    progress: InFlight,
    /// Sends the progress to the followers. It is made for the first one.
    followers: Option<watch::Sender<Progress>>,
}

/// Receives the progress of a leader.
type LeaderReceiver = watch::Receiver<Progress>;

/// How far a leader is.
#[derive(Debug)]
enum Progress {
    InFlight(InFlight),
    /// It has finished with this confirmed record.
    Done(Box<Record>),
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
    Leader(Arc<Leader>),
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

impl Leader {
    fn new(progress: InFlight) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Leading {
            progress,
            followers: None,
        })))
    }

    /// Returns what the leader publishes. A panic cannot leave it half written, so a poisoned lock is still good.
    fn leading(&self) -> MutexGuard<'_, Leading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that has seen the present progress, so that its follower wakes for the next change only.
    fn follow(&self) -> (LeaderReceiver, InFlight) {
        let mut leading = self.leading();
        let progress = leading.progress;
        let new = || watch::Sender::new(Progress::InFlight(progress));
        let followers = leading.followers.get_or_insert_with(new);
        (followers.subscribe(), progress)
    }

    /// Publishes this progress. Returns false if it is the same as before.
    fn publish(&self, progress: InFlight) -> bool {
        let mut leading = self.leading();
        if leading.progress == progress {
            return false;
        }
        leading.progress = progress;
        if let Some(followers) = &leading.followers {
            followers.send_replace(Progress::InFlight(progress));
        }
        true
    }

    /// Returns true if the receiver is that of a follower of this leader.
    fn has_follower(&self, receiver: &LeaderReceiver) -> bool {
        let leading = self.leading();
        let followers = leading.followers.as_ref();
        followers.is_some_and(|it| it.subscribe().same_channel(receiver))
    }
}

impl FlightGuard<'_> {
    /// Makes this call a follower, and returns its leader's progress. If there is no leader, this call becomes the leader with
    /// progress `mine`. A call that leads, now or already, gets `Input::Local(None)`.
    pub(super) fn join(&mut self, mine: InFlight) -> Input {
        let mut entries = self.single_flight.entries();
        match entries.get(&self.key) {
            None => self.role = self.lead(&mut entries, mine),
            Some(leader) if self.leads(leader) => {}
            Some(leader) => {
                let (leader, progress) = leader.follow();
                self.role = Role::Follower {
                    leader,
                    timed_out: false,
                };
                return Input::LeaderProgress(progress);
            }
        }
        Input::Local(None)
    }

    /// Publishes this call's progress to its followers.
    ///
    /// A call that is not the leader becomes it first in three cases: there is no leader, `mine` supersedes the leader, or this call
    /// timed out while it waited for the leader.
    pub(super) fn publish(&mut self, mine: InFlight, now: EpochMillis) {
        if let Role::Leader(leader) = &self.role {
            if leader.publish(mine) {
                // Another call may have become the leader while this one was less advanced.
                let mut entries = self.single_flight.entries();
                if is_superseded_by(entries.get(&self.key), &mine, now) {
                    entries.insert(self.key.clone(), Arc::clone(leader));
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
            .is_some_and(|(leader, abandoned)| leader.has_follower(&abandoned));
        if is_abandoned || is_superseded_by(leader, &mine, now) {
            self.role = self.lead(&mut entries, mine);
        }
    }

    /// Returns true if `leader` is this call.
    fn leads(&self, leader: &Arc<Leader>) -> bool {
        matches!(&self.role, Role::Leader(mine) if Arc::ptr_eq(mine, leader))
    }

    fn lead(&self, entries: &mut Entries, mine: InFlight) -> Role {
        let leader = Leader::new(mine);
        entries.insert(self.key.clone(), Arc::clone(&leader));
        Role::Leader(leader)
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
            Progress::Done(record) => Input::LeaderDone(Some((**record).clone())),
            Progress::InFlight(_) if left => Input::LeaderDone(None),
            Progress::InFlight(in_flight) => Input::LeaderProgress(*in_flight),
        }
    }

    /// Leaves single flight, and hands the confirmed record, if there is one, to the followers of this call.
    pub(super) fn finish(mut self, confirmed: Option<&Record>) {
        if let (Some(followers), Some(record)) = (self.leave(), confirmed) {
            followers.send_replace(Progress::Done(Box::new(record.clone())));
        }
    }

    /// Removes this call from the map. Returns the sender to its followers if it was a leader and has had some.
    fn leave(&mut self) -> Option<watch::Sender<Progress>> {
        let Role::Leader(mine) = std::mem::replace(&mut self.role, Role::Solo) else {
            return None;
        };
        let mut entries = self.single_flight.entries();
        // Another call may be the leader by now. It stays.
        if let Some((key, leader)) = entries.remove_entry(&self.key)
            && !Arc::ptr_eq(&leader, &mine)
        {
            entries.insert(key, leader);
        }
        mine.leading().followers.take()
    }
}

/// Returns true if `candidate` should replace the leader: there is none, its lease has expired, or it is less advanced.
fn is_superseded_by(leader: Option<&Arc<Leader>>, candidate: &InFlight, now: EpochMillis) -> bool {
    leader.is_none_or(|it| it.leading().progress.is_superseded_by(candidate, now))
}

/// A call that is dropped before it finishes shares nothing: its followers see that the sender is gone.
impl Drop for FlightGuard<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
