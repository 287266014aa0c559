//! Which fault meets a request.

use super::fault::{Fault, Kind};
use super::injected::Injected;
use super::request::Request;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All faults in force, in the order of their injection.
#[derive(Default)]
pub(super) struct Faults(Mutex<Table>);

#[derive(Default)]
struct Table {
    armed: Vec<Armed>,
    choose: Option<Choose>,
}

/// Chooses what goes wrong with a request that no injected fault meets.
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

    /// Returns the fault that meets this request: the one injected first, else the chosen one. All injected ones count it.
    pub(super) fn meet(&self, request: &Request) -> Option<(Kind, Injected)> {
        let mut met = None;
        let mut table = self.table();
        for armed in &mut table.armed {
            let place = &armed.fault.place;
            if !place.meets(request) {
                continue;
            }
            armed.seen += 1;
            let due = armed.seen >= place.first && armed.seen - place.first < place.times;
            if due && met.is_none() {
                met = Some((armed.fault.kind.clone(), armed.injected.clone()));
            }
        }
        met.or_else(|| {
            let fault = table.choose.as_mut()?(request)?;
            Some((fault.kind, Injected::new()))
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
