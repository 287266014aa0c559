//! Functions as their users write them from the documents, as real processes under the local Lambda: this test program, started
//! again as [`the_function`] in a role. What only such a function needs is tested beside it.
#![allow(clippy::unwrap_used)]

/// Batches of SQS, Kinesis and DynamoDB streams: what runs, and what the partial batch response names.
mod batch {
    mod attribute;
    mod hostile;
    mod properties;
    mod recipes;
    mod shop;
    mod sources;
    mod sqs;
    mod streams;
}
mod concurrent;
mod entry_points;
#[cfg(target_os = "linux")]
mod hostile_events;
/// HTTP on Lambda: what a client gets through API Gateway (both payload formats), a load balancer and a function URL.
mod http {
    mod building;
    pub(super) mod functions;
    mod harness;
    mod keys;
    mod responses;
}
mod init_variables;
mod large_responses;
mod layer;
mod metrics;
mod processes;
#[cfg(unix)]
mod server;
/// Functions of each shape, as their users write them from the documents.
mod shapes {
    mod call;
    mod faults;
    pub(super) mod function;
}
mod soak;
mod tls;

use std::pin::Pin;

use idempotency_lambda::BoxError;
use idempotency_tests::process;

/// Serves events in a process that the local Lambda started. In the test run it does nothing.
#[test]
fn the_function() {
    let Some((suite, role)) = process::role() else {
        return;
    };
    let function: Pin<Box<dyn Future<Output = Result<(), BoxError>>>> = match &*suite {
        "concurrent" => Box::pin(concurrent::function::serve(&role)),
        "entry_points" => Box::pin(entry_points::serve(&role)),
        #[cfg(target_os = "linux")]
        "hostile_events" => Box::pin(hostile_events::serve(&role)),
        "http" => Box::pin(http::functions::serve(&role)),
        "large_responses" => Box::pin(large_responses::serve()),
        "layer" => Box::pin(layer::serve(&role)),
        "metrics" => Box::pin(metrics::serve(&role)),
        "processes" => Box::pin(processes::serve(&role)),
        #[cfg(unix)]
        "server" => Box::pin(server::serve()),
        "shapes" => Box::pin(shapes::function::serve(&role)),
        "tls" => Box::pin(tls::serve()),
        other => panic!("there is no suite {other}"),
    };
    let threads = match &*suite {
        // As in Lambda's smallest functions.
        "hostile_events" => 1,
        // On one thread, the connection of the warm-up is idle before the first event arrives. On several threads, it may be put
        // back a moment later, and the client then opens another one.
        "tls" => 1,
        // Invocations change threads between their polls.
        _ => 4,
    };
    process::serve(threads, function);
}
