//! A store in memory whose writes of steps fail on request.

use std::collections::VecDeque;

use super::super::*;
use super::{id, winner};
use crate::example::ready;
use crate::future::BoxFuture;
use crate::record::Record;
use crate::store::{Consistency, MemoryStore, ReadOutcome, Store, StoreErrorKind, WriteOutcome};

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
    fn write<'a>(
        &'a self,
        id: &'a RecordId,
        write: &'a Write,
        condition: &'a Condition,
        log: &'a SendLog,
    ) -> BoxFuture<'a, WriteOutcome> {
        let fault = match write {
            Write::Step { .. } => self.faults.lock().unwrap().pop_front(),
            _ => None,
        };
        let fails = |maybe_applied, kind| {
            let error = StoreError::new(kind, "the store fails");
            let outcome = WriteOutcome::Failed {
                maybe_applied,
                error,
            };
            Box::pin(std::future::ready(outcome))
        };
        match *self.outage.lock().unwrap() {
            Some(Outage::Throttled) => return fails(false, StoreErrorKind::Throttled),
            Some(Outage::RepliesLost) => {
                drop(ready(self.records.write(id, write, condition, log)));
                return fails(true, StoreErrorKind::Unreachable);
            }
            None => {}
        }
        match fault {
            None => self.records.write(id, write, condition, log),
            Some(Fault::TakenOver) => {
                self.records.insert(id.clone(), winner());
                self.records.write(id, write, condition, log)
            }
            Some(Fault::ReplyLost) => {
                drop(ready(self.records.write(id, write, condition, log)));
                fails(true, StoreErrorKind::Unreachable)
            }
            Some(Fault::Throttled) => fails(false, StoreErrorKind::Throttled),
            Some(Fault::Denied) => fails(false, StoreErrorKind::AccessDenied),
            Some(Fault::TooLarge) => fails(false, StoreErrorKind::TooLarge),
        }
    }

    fn read<'a>(
        &'a self,
        id: &'a RecordId,
        consistency: Consistency,
        log: &'a SendLog,
    ) -> BoxFuture<'a, ReadOutcome> {
        if self.outage.lock().unwrap().is_some() {
            let error = StoreError::new(StoreErrorKind::Unreachable, "the store fails");
            return Box::pin(std::future::ready(ReadOutcome::Failed(error)));
        }
        self.records.read(id, consistency, log)
    }

    fn name(&self) -> String {
        "desk".to_owned()
    }
}
