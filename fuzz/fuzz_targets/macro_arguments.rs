//! For any arguments of `#[idempotent(..)]` on any function, the macro returns Rust that contains the function. The first line
//! of the input is the arguments; the rest is the function, or `HANDLER` if there is only one line.
//!
//! The target includes the sources of the macro crate, because only the compiler can call a procedural macro.
#![no_main]
#![allow(dead_code)]

#[path = "../../idempotency-macros/src"]
mod macros {
    pub mod arguments;
    pub mod attribute;
    pub mod bounds;
    pub mod expand;
    pub mod parameters;
    pub mod parse;
    pub mod runtime;
    pub mod validate;
    pub mod values;
}
// The sources name each other by the root of their crate.
use macros::{arguments, attribute, bounds, expand, parameters, parse, runtime, validate, values};

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::{Corpus, fuzz_target};
use proc_macro2::TokenStream;
use syn::{File, Item, ItemFn};

const HANDLER: &str = "async fn handler(event: LambdaEvent<A>) -> Result<A, E> { a }";

/// rustc's stack has 8 MB. With sanitizers, stack frames are several times as large.
const STACK: usize = 64 * 1024 * 1024;

fn is_error(item: &Item) -> bool {
    matches!(item, Item::Macro(call) if call.mac.path.segments.last().is_some_and(|last| last.ident == "compile_error"))
}

fn check(text: &str) -> Corpus {
    let (arguments, item) = text.split_once('\n').unwrap_or((text, HANDLER));
    let (Ok(arguments), Ok(item)) = (arguments.parse(), item.parse::<TokenStream>()) else {
        return Corpus::Reject;
    };
    let expanded = attribute::attribute(arguments, item.clone());
    // The macro refuses a signature that is too deep to parse. It must not be parsed here either.
    if bounds::signature(&item).is_err() {
        return Corpus::Keep;
    }
    let Ok(written) = syn::parse2::<ItemFn>(item) else {
        return Corpus::Keep;
    };
    let expanded: File = syn::parse2(expanded).expect("the expansion is Rust");
    let (errors, items): (Vec<_>, Vec<_>) = expanded.items.into_iter().partition(is_error);
    let [Item::Fn(function)] = &items[..] else {
        panic!("the expansion is not one function");
    };
    assert_eq!(function.sig.ident, written.sig.ident);
    assert!(errors.is_empty() || *function == written);
    Corpus::Keep
}

/// One thread for all inputs, because starting a thread takes longer than an input.
static WORKER: LazyLock<Mutex<(Sender<String>, Receiver<Corpus>)>> = LazyLock::new(|| {
    let ((send, inputs), (done, results)) = (channel::<String>(), channel());
    let thread = std::thread::Builder::new().stack_size(STACK);
    let run = move || inputs.iter().try_for_each(|text| done.send(check(&text)));
    thread.spawn(run).expect("a thread");
    Mutex::new((send, results))
});

fuzz_target!(|text: &str| -> Corpus {
    // A panic in any thread ends the process.
    let worker = WORKER.lock().expect("no panic");
    worker.0.send(text.to_owned()).expect("the worker waits");
    worker.1.recv().expect("the worker replies")
});
