//! Functions of each shape, as their users write them from the documents.
#![allow(clippy::unwrap_used)]

mod call;
mod faults;
mod function;
mod same_record;

/// Serves events in a process that the local Lambda started. In the test run it does nothing.
#[test]
fn the_function() {
    if let Ok(role) = std::env::var(function::ROLE) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        if let Err(error) = runtime.block_on(function::serve(&role)) {
            eprintln!("Error: {error:?}");
            std::process::exit(1);
        }
    }
}
