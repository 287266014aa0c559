//! The metrics of one invocation. They are collected in its scope and written at its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lambda_runtime::Context;

use super::output;
use super::tally::Tally;

/// A handle to the metrics of the invocation around the running code. Without an invocation it is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Option<Arc<Metrics>>);

/// The owner of an invocation's metrics: they are written when it is closed or dropped.
#[derive(Debug, Default)]
pub(crate) struct InvocationMeter(Meter);

#[derive(Debug)]
struct Metrics {
    request_id: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tallies: Vec<Tally>,
    /// True if the invocation has ended. What a task counts later is written at once.
    is_closed: bool,
}

impl Meter {
    /// Returns this meter if it belongs to the invocation of `other`, or if `other` has none. Otherwise returns the meter of
    /// `other`.
    ///
    /// Two layers can open a scope for one invocation. The outer one counts.
    pub(crate) fn for_invocation(self, other: &InvocationMeter) -> Self {
        match (&self.0, &other.0.0) {
            (_, None) => self,
            (Some(mine), Some(other)) if mine.request_id == other.request_id => self,
            _ => other.0.clone(),
        }
    }

    /// Changes the metrics of `operation` in this invocation. Without an invocation, or after its end, they are written at once.
    pub(crate) fn change(&self, operation: &str, change: impl FnOnce(&mut Tally)) {
        let mut alone = Tally::new(operation);
        if let Some(metrics) = &self.0 {
            let mut state = metrics.state();
            if !state.is_closed {
                let known = state.tallies.iter().position(|t| t.operation == operation);
                match known {
                    Some(at) => change(&mut state.tallies[at]),
                    None => {
                        change(&mut alone);
                        state.tallies.push(alone);
                    }
                }
                return;
            }
        }
        change(&mut alone);
        let request_id = self.0.as_ref().map(|metrics| metrics.request_id.as_str());
        output::write(&[alone], request_id);
    }
}

impl InvocationMeter {
    /// Returns the meter of the invocation that `context` describes, or none if metrics are off.
    pub(crate) fn of(context: &Context) -> Self {
        if !output::is_on() {
            return Self::default();
        }
        Self(Meter(Some(Arc::new(Metrics {
            request_id: context.request_id.clone(),
            state: Mutex::default(),
        }))))
    }

    /// Writes what was collected.
    pub(crate) fn close(&self) {
        if let Some(metrics) = &self.0.0 {
            let mut state = metrics.state();
            state.is_closed = true;
            let tallies = std::mem::take(&mut state.tallies);
            drop(state);
            output::write(&tallies, Some(&metrics.request_id));
        }
    }
}

/// An invocation whose future was dropped before its end has metrics too.
impl Drop for InvocationMeter {
    fn drop(&mut self) {
        self.close();
    }
}

impl Metrics {
    /// Returns the state. A panic cannot leave it half written, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(request_id: &str) -> InvocationMeter {
        let metrics = Metrics {
            request_id: request_id.to_owned(),
            state: Mutex::default(),
        };
        InvocationMeter(Meter(Some(Arc::new(metrics))))
    }

    #[test]
    fn of_several_layers_the_outer_one_counts_an_invocation() {
        let (outer, inner, next, none) =
            (of("r-1"), of("r-1"), of("r-2"), InvocationMeter::default());
        let place = |meter: &Meter| meter.0.as_ref().map(Arc::as_ptr);
        for (mine, other, expected) in [
            (&outer, &inner, &outer),
            (&outer, &next, &next),
            (&outer, &none, &outer),
            (&none, &inner, &inner),
            (&none, &none, &none),
        ] {
            let counting = mine.0.clone().for_invocation(other);
            assert_eq!(place(&counting), place(&expected.0));
        }
    }

    #[test]
    fn each_operation_has_one_tally_until_the_invocation_ends() {
        let meter = of("r-1");
        let count = |operation| {
            meter
                .0
                .change(operation, |tally| tally.count("Executed", 1))
        };
        let tallies = || {
            let state = meter.0.0.as_ref().unwrap().state();
            let tallies = state.tallies.iter();
            let tallies = tallies.map(|it| (it.operation.clone(), it.counts.clone()));
            tallies.collect::<Vec<_>>()
        };
        for operation in ["charge", "ship", "charge"] {
            count(operation);
        }
        let of = |operation: &str, n| (operation.to_owned(), vec![("Executed", n)]);
        assert_eq!(tallies(), [of("charge", 2), of("ship", 1)]);
        meter.close();
        count("charge");
        assert_eq!(tallies(), []);
    }
}
