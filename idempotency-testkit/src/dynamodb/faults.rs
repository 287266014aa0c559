//! The active faults, and the choice of the one that applies to a request.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::fault::{Fault, Kind};
use super::injected::Injected;
use super::request::Request;

/// All active faults, in the order of their injection.
#[derive(Default)]
pub(super) struct Faults(Mutex<Table>);

#[derive(Default)]
struct Table {
    armed: Vec<Armed>,
    choose: Option<Choose>,
}

/// Chooses the fault of a request that no injected fault applies to.
pub(super) type Choose = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

#[derive(Debug)]
struct Armed {
    fault: Fault,
    seen: usize,
    injected: Injected,
}

impl Faults {
    pub(super) fn inject(&self, fault: Fault) -> Injected {
        let injected = Injected::new();
        self.table().armed.push(Armed {
            fault,
            seen: 0,
            injected: injected.clone(),
        });
        injected
    }

    pub(super) fn choose(&self, choose: Choose) {
        self.table().choose = Some(choose);
    }

    pub(super) fn clear(&self) {
        *self.table() = Table::default();
    }

    /// Returns the fault that applies to this request: the first injected one, otherwise the chosen one. Every injected
    /// fault that matches counts the request.
    pub(super) fn apply_to(&self, request: &Request) -> Option<(Kind, Injected)> {
        let mut found = None;
        let mut table = self.table();
        for armed in &mut table.armed {
            let target = &armed.fault.target;
            if !target.matches(request) {
                continue;
            }
            armed.seen += 1;
            let due = armed.seen >= target.first && armed.seen - target.first < target.times;
            if due && found.is_none() {
                found = Some((armed.fault.kind.clone(), armed.injected.clone()));
            }
        }
        found.or_else(|| {
            let fault = table.choose.as_mut()?(request)?;
            Some((fault.kind, Injected::new()))
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
