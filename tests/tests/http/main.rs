//! HTTP on Lambda: what a client gets through API Gateway (both payload formats), a load balancer and a function URL.
//!
//! | file | what it holds |
//! |---|---|
//! | `functions` | the functions: the layer around an axum `Router` and a service of `lambda_http`, and annotated handlers |
//! | `source` | the sources of requests: how each writes a request, and what of a response it reads |
//! | `harness` | a process of a function with a table of its own |
//! | `responses` | each response of the draft, header by header, for each function and source |
//! | `bodies` | binary bodies, byte for byte |
//! | `places` | deadlines, tenants and callers |
//! | `secrets` | what never reaches the log |
//! | `failures` | errors of the handler and of the store |
//! | `building` | the settings: prefixes, variables, other stores |
//! | `keys` | the records of the attribute, of the layer and of a plain function |
#![allow(clippy::unwrap_used)]

mod bodies;
mod building;
mod failures;
mod functions;
mod harness;
mod keys;
mod places;
mod responses;
mod secrets;
mod source;

/// Serves events in a process that the local Lambda started. In the test run it does nothing.
#[test]
fn the_function() {
    if let Ok(role) = std::env::var(harness::ROLE) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        if let Err(error) = runtime.block_on(functions::main_of(&role)) {
            eprintln!("Error: {error:?}");
            std::process::exit(1);
        }
    }
}
