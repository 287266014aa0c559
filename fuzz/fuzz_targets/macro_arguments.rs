//! Whatever is written in `#[idempotent(..)]`, and on whatever function, the macro gives Rust with that function in it.
//! The first line of the input is the arguments, the rest the function; a handler where it is left out.
//!
//! Nothing can be called of a macro's crate but its macros, and these only by the compiler. Hence its sources.
#![no_main]
#![allow(dead_code)]

#[path = "../../idempotency-macros/src/arguments/mod.rs"]
mod arguments;
#[path = "../../idempotency-macros/src/attribute.rs"]
mod attribute;
#[path = "../../idempotency-macros/src/bounds.rs"]
mod bounds;
#[path = "../../idempotency-macros/src/expand/mod.rs"]
mod expand;
#[path = "../../idempotency-macros/src/fallback.rs"]
mod fallback;
#[path = "../../idempotency-macros/src/parameters.rs"]
mod parameters;
#[path = "../../idempotency-macros/src/parse.rs"]
mod parse;
#[path = "../../idempotency-macros/src/runtime.rs"]
mod runtime;
#[path = "../../idempotency-macros/src/validate/mod.rs"]
mod validate;
#[path = "../../idempotency-macros/src/values/mod.rs"]
mod values;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::{Corpus, fuzz_target};
use proc_macro2::TokenStream;
use syn::{File, Item, ItemFn};

const HANDLER: &str = "async fn handler(event: LambdaEvent<A>) -> Result<A, E> { a }";

/// rustc's stack has 8 MB; with sanitizers frames are several times as large.
const STACK: usize = 64 * 1024 * 1024;

fn is_error(item: &Item) -> bool {
    matches!(item, Item::Macro(call) if call.mac.path.segments.last().is_some_and(|last| last.ident == "compile_error"))
}

fn check(text: &str) -> Corpus {
    let (arguments, item) = text.split_once('\n').unwrap_or((text, HANDLER));
    let (Ok(arguments), Ok(item)) = (arguments.parse(), item.parse::<TokenStream>()) else {
        return Corpus::Reject;
    };
    let back = attribute::attribute(arguments, item.clone());
    // The compiler has parsed the function before. What is too deep to be parsed here is refused unread.
    if bounds::signature(&item).is_err() {
        return Corpus::Keep;
    }
    let Ok(written) = syn::parse2::<ItemFn>(item) else {
        return Corpus::Keep;
    };
    let back: File = syn::parse2(back).expect("what comes back is Rust");
    let (errors, items): (Vec<_>, Vec<_>) = back.items.into_iter().partition(is_error);
    let [Item::Fn(function)] = &items[..] else {
        panic!("not one function came back");
    };
    assert_eq!(function.sig.ident, written.sig.ident);
    assert!(errors.is_empty() || *function == written);
    Corpus::Keep
}

/// One thread for all inputs: to make one takes longer than an input does.
static WORKER: LazyLock<Mutex<(Sender<String>, Receiver<Corpus>)>> = LazyLock::new(|| {
    let ((ask, asked), (answer, answered)) = (channel::<String>(), channel());
    let thread = std::thread::Builder::new().stack_size(STACK);
    let run = move || asked.iter().try_for_each(|text| answer.send(check(&text)));
    thread.spawn(run).expect("a thread");
    Mutex::new((ask, answered))
});

fuzz_target!(|text: &str| -> Corpus {
    // A panic ends the process, in whatever thread it is.
    let worker = WORKER.lock().expect("no panic");
    worker.0.send(text.to_owned()).expect("the worker waits");
    worker.1.recv().expect("the worker answers")
});
