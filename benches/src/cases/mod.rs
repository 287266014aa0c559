//! The cases: each has a name and a closure that does the work once.

mod batches;
mod engine;
mod functions;
mod keys;

use std::cell::LazyCell;
use std::rc::Rc;

use serde::de::DeserializeOwned;

use crate::events::{CALL_SIZES, SIZES, http};

/// One thing that is measured.
pub struct Case {
    /// `what/how/size`, such as `key/path/raw/4KB`.
    pub name: String,
    /// The length of its event, in bytes.
    pub bytes: usize,
    /// Prepares what is not measured. The result does the work once.
    pub prepare: Box<dyn Fn() -> Run>,
}

/// Does the work of a case once.
pub type Run = Box<dyn FnMut()>;

/// Returns the cases whose name contains `filter`, always in the same order. Makes the events of these cases only.
pub fn all(filter: &str) -> Vec<Case> {
    let mut cases = Cases {
        filter,
        list: Vec::new(),
    };
    for (size, bytes) in SIZES {
        keys::add(&mut cases, size, &LazyCell::new(|| http(bytes)));
    }
    for (size, bytes) in CALL_SIZES {
        engine::add(&mut cases, size, bytes);
        functions::add(&mut cases, size, bytes);
    }
    batches::add(&mut cases);
    cases.list
}

struct Cases<'f> {
    filter: &'f str,
    list: Vec<Case>,
}

/// The text of an event, made when the first chosen case needs it.
type Event<F> = LazyCell<String, F>;

impl Cases<'_> {
    /// Adds a case, if it is chosen. `make` prepares what is not measured.
    fn add<R: Fn() + 'static, F: FnOnce() -> String>(
        &mut self,
        name: String,
        event: &Event<F>,
        make: impl FnOnce(&str) -> R,
    ) {
        self.add_prepared(name, event, |text| {
            let run = Rc::new(make(text));
            move || {
                let run = Rc::clone(&run);
                Box::new(move || run())
            }
        });
    }

    /// Adds a case that is prepared before each run, if it is chosen.
    fn add_prepared<P: Fn() -> Run + 'static, F: FnOnce() -> String>(
        &mut self,
        name: String,
        event: &Event<F>,
        make: impl FnOnce(&str) -> P,
    ) {
        if name.contains(self.filter) {
            self.list.push(Case {
                name,
                bytes: event.len(),
                prepare: Box::new(make(event)),
            });
        }
    }
}

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("the event fits its type")
}
