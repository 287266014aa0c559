//! A store in memory whose writes of steps fail on request.

use std::collections::VecDeque;

use super::super::*;
use super::{id, winner};
use crate::example::ready;
use crate::future::BoxFuture;
use crate::protocol::Write;
use crate::record::Record;
use crate::store::{MemoryStore, RecordWrite, SendLog, Store, StoreErrorKind, StoreReply};

/// What happens to a write of a step.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// It is applied, and its reply is lost.
    ReplyLost,
    Throttled,
    Denied,
    TooLarge,
    /// The claim is gone before it: another call has completed the key.
    TakenOver,
}

/// What happens to every other request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outage {
    /// It is not applied.
    Throttled,
    /// A write is applied, and its reply is lost. So is that of a read.
    RepliesLost,
}

/// A store in memory whose writes of steps fail on request.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) records: MemoryStore,
    outage: Mutex<Option<Outage>>,
    faults: Mutex<VecDeque<Fault>>,
}

impl Desk {
    pub(super) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    pub(super) fn begin(&self, outage: Outage) {
        *self.outage.lock().unwrap() = Some(outage);
    }

    /// Ends the outage.
    pub(super) fn end(&self) {
        *self.outage.lock().unwrap() = None;
    }

    pub(super) fn record(&self) -> Option<Record> {
        self.records.record(&id())
    }

    pub(super) fn recorded(&self) -> Vec<(String, String)> {
        let record = self.record().unwrap_or_default();
        let steps = record.steps.value().cloned().unwrap_or_default();
        let steps = steps.iter();
        steps
            .map(|(name, result)| (name.to_owned(), result.as_str().to_owned()))
            .collect()
    }
}

impl Store for Desk {
    fn send<'a>(
        &'a self,
        request: StoreRequest<'a>,
        log: &'a SendLog,
    ) -> BoxFuture<'a, StoreReply> {
        let fails = |reply: fn(StoreError) -> StoreReply, kind| -> BoxFuture<'a, StoreReply> {
            let error = StoreError::new(kind, "the store fails");
            Box::pin(std::future::ready(reply(error)))
        };
        let lost = |error| StoreReply::failed(error).or_earlier();
        let Some(RecordWrite { id, write, .. }) = request.record() else {
            return match *self.outage.lock().unwrap() {
                Some(_) => fails(StoreReply::failed, StoreErrorKind::Unreachable),
                None => self.records.send(request, log),
            };
        };
        let fault = match write {
            Write::Step { .. } => self.faults.lock().unwrap().pop_front(),
            _ => None,
        };
        match *self.outage.lock().unwrap() {
            Some(Outage::Throttled) => return fails(StoreReply::failed, StoreErrorKind::Throttled),
            Some(Outage::RepliesLost) => {
                drop(ready(self.records.send(request, log)));
                return fails(lost, StoreErrorKind::Unreachable);
            }
            None => {}
        }
        match fault {
            None => self.records.send(request, log),
            Some(Fault::TakenOver) => {
                self.records.insert(id.clone(), winner());
                self.records.send(request, log)
            }
            Some(Fault::ReplyLost) => {
                drop(ready(self.records.send(request, log)));
                fails(lost, StoreErrorKind::Unreachable)
            }
            Some(Fault::Throttled) => fails(StoreReply::failed, StoreErrorKind::Throttled),
            Some(Fault::Denied) => fails(StoreReply::failed, StoreErrorKind::AccessDenied),
            Some(Fault::TooLarge) => fails(StoreReply::failed, StoreErrorKind::TooLarge),
        }
    }

    fn name(&self) -> String {
        "desk".to_owned()
    }
}
