//! Calls over an HTTP client that replies at once, so that callgrind counts what the DynamoDB client costs.
//!
//! `benches/client/instructions.sh` runs it. `client CASE NAME [CALLS]` runs one case of one contestant:
//!
//! | case | what is counted |
//! |---|---|
//! | `fresh` | a claim and its completion |
//! | `duplicate` | a claim that is refused with a completed record, and the response of that record |
//! | `stored/SIZE/FORM` | a claim and its completion with a response of JSON, `plain` or `compressed` |
//! | `replayed/SIZE/FORM` | a duplicate of it |
//!
//! | name | what sends the requests |
//! |---|---|
//! | `by-hand` | the SDK with its default settings, as the best engineer would write it |
//! | `store` | our store on the SDK's client, without the engine |
//! | `lean` | our store on the lean client |
//! | `engine` | an operation from the event to the response, on `store` |
//! | `engine-lean` | the same on `lean` |
//!
//! `client loopback [ROUNDS] [CALLS]` compares the CPU time of `by-hand`, `store` and `lean` over connections. `client phases [CALLS]`
//! prints where the time of a fresh call goes.

mod by_hand;
mod loopback;
mod ours;
mod phases;
mod stub;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_types::timeout::TimeoutConfig;
use tokio::runtime::Runtime;

use ours::{Operation, Stores};
use stub::Stub;

/// The response that is stored.
const RESPONSE: &str =
    r#"{"order_id":"o-1234567890","charged":4200,"currency":"EUR","receipt":"r-0987654321"}"#;

/// The configuration that `aws_config` would load in Lambda, without its HTTP client.
pub(crate) fn sdk_config(stub: &Stub) -> SdkConfig {
    let credentials = Credentials::new(
        "AKIDEXAMPLE",
        "secret",
        Some("token".repeat(60)),
        None,
        "bench",
    );
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .identity_cache(aws_config::identity::IdentityCache::lazy().build())
        .http_client(stub.clone())
        .time_source(aws_smithy_async::time::SystemTimeSource::new())
        .sleep_impl(aws_smithy_async::rt::sleep::SharedAsyncSleep::new(
            aws_smithy_async::rt::sleep::TokioSleep::new(),
        ))
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(std::time::Duration::from_millis(3100))
                .build(),
        )
        .retry_config(aws_config::retry::RetryConfig::standard())
        .build()
}

/// The function that callgrind counts. It must not be inlined: callgrind finds it by its name.
#[inline(never)]
fn counted_calls(run: &mut dyn FnMut()) {
    run();
    std::hint::black_box(());
}

/// A call of a contestant. The number makes it another call.
type Run<'a> = Box<dyn FnMut(i64) + 'a>;

/// Returns a call of `fresh`.
fn fresh<'a>(name: &str, config: &SdkConfig, stores: &Stores, runtime: &'a Runtime) -> Run<'a> {
    match name {
        "by-hand" => {
            let client = aws_sdk_dynamodb::Client::new(config);
            Box::new(move |number| runtime.block_on(by_hand::call(&client, number)))
        }
        "store" | "lean" => {
            let store = stores.named(name);
            Box::new(move |number| {
                let response = RESPONSE.to_owned();
                runtime.block_on(ours::call(&store, number, response))
            })
        }
        _ => {
            let operation = Operation::over(stores.named(name));
            Box::new(move |number| {
                let response = runtime.block_on(operation.call(number));
                assert_eq!(response["charged"], 4200);
            })
        }
    }
}

/// Returns a call of `duplicate`.
fn duplicate<'a>(name: &str, config: &SdkConfig, stores: &Stores, runtime: &'a Runtime) -> Run<'a> {
    match name {
        "by-hand" => {
            let client = aws_sdk_dynamodb::Client::new(config);
            Box::new(move |number| {
                let response = runtime.block_on(by_hand::duplicate(&client, number));
                assert_eq!(response, RESPONSE);
            })
        }
        "store" | "lean" => {
            let store = stores.named(name);
            Box::new(move |number| {
                let response = runtime.block_on(ours::duplicate(&store, number));
                assert_eq!(response, RESPONSE);
            })
        }
        // The stub has the record of every key.
        _ => fresh(name, config, stores, runtime),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let case = arguments.first().map_or("fresh", String::as_str);
    if matches!(case, "loopback" | "phases" | "serve") {
        return loopback::run(&arguments);
    }
    let name = arguments.get(1).map_or("store", String::as_str);
    let calls: i64 = arguments.get(2).map_or(10, |calls| calls.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let stub = Stub::default();
    let config = sdk_config(&stub);
    let parts: Vec<_> = case.split('/').collect();
    let compressed = parts.get(2).is_none_or(|form| *form == "compressed");
    let stores = Stores::new(&config, compressed);
    let response = parts.get(1).map(|size| ours::orders(size));
    // What a duplicate finds is what a call has stored.
    if matches!(parts[0], "duplicate" | "replayed") {
        stub.keep();
        if name.starts_with("engine") {
            // Its record has the validation digest of its event.
            runtime.block_on(Operation::over(stores.named("engine")).call(0));
        } else {
            let stored = response.clone().unwrap_or_else(|| RESPONSE.to_owned());
            runtime.block_on(ours::call(&stores.named("store"), 0, stored));
        }
        let written = stub.kept();
        stub.refuse(&written);
    }
    let mut run = match parts[0] {
        "fresh" => fresh(name, &config, &stores, &runtime),
        "duplicate" => duplicate(name, &config, &stores, &runtime),
        "stored" => {
            let (store, response) = (stores.named(name), response.unwrap());
            let runtime = &runtime;
            Box::new(move |number| {
                let response = response.clone();
                runtime.block_on(ours::call(&store, number, response));
            }) as Run<'_>
        }
        "replayed" => {
            let (store, response) = (stores.named(name), response.unwrap());
            let runtime = &runtime;
            Box::new(move |_| {
                // The ids of the pieces have the number of the call that stored them.
                assert!(runtime.block_on(ours::duplicate(&store, 0)) == response);
            })
        }
        other => panic!("there is no case {other}"),
    };
    // The first calls fill what is initialised once.
    for number in 0..3 {
        run(number);
    }
    let sent = stub.sent();
    counted_calls(&mut || (3..3 + calls).for_each(&mut run));
    println!("{}", (stub.sent() - sent) / calls.unsigned_abs());
}
