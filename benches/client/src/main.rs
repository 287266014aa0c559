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
//! `client phases [CALLS]` prints where the time of a fresh call goes, over a connection.

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
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(credentials(300))
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

/// Makes one call of a contestant. The number chooses the key.
type Run<'a> = Box<dyn FnMut(i64) + 'a>;

/// Returns the closure that makes the calls of a case. `response` is what a fresh call stores, and what a duplicate finds.
fn prepare<'a>(
    is_fresh: bool,
    name: &str,
    response: String,
    config: &SdkConfig,
    stores: &Stores,
    runtime: &'a Runtime,
) -> Run<'a> {
    let small = response == RESPONSE;
    match (name, is_fresh) {
        ("by-hand", true) => {
            let client = aws_sdk_dynamodb::Client::new(config);
            Box::new(move |number| runtime.block_on(by_hand::call(&client, number)))
        }
        ("by-hand", false) => {
            let client = aws_sdk_dynamodb::Client::new(config);
            Box::new(move |number| {
                let found = runtime.block_on(by_hand::duplicate(&client, number));
                assert_eq!(found, response);
            })
        }
        ("store" | "lean", true) => {
            let store = stores.named(name);
            Box::new(move |number| {
                runtime.block_on(ours::call(&store, number, response.clone()));
            })
        }
        ("store" | "lean", false) => {
            let store = stores.named(name);
            Box::new(move |number| {
                // The ids of the pieces of a large response have the number of the call that stored them.
                let number = if small { number } else { 0 };
                assert!(runtime.block_on(ours::duplicate(&store, number)) == response);
            })
        }
        // The stub has the record of every key, so the same call is a duplicate.
        _ => {
            let operation = Operation::over(stores.named(name));
            Box::new(move |number| {
                let response = runtime.block_on(operation.call(number));
                assert_eq!(response["charged"], 4200);
            })
        }
    }
}

pub(crate) fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// Returns credentials with a session token of `token` bytes.
pub(crate) fn credentials(token: usize) -> SharedCredentialsProvider {
    let token = Some("token".repeat(token / 5));
    let credentials = Credentials::new("AKIDEXAMPLE", "secret", token, None, "bench");
    SharedCredentialsProvider::new(credentials)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let case = arguments.first().map_or("fresh", String::as_str);
    if matches!(case, "phases" | "serve") {
        return loopback::run(&arguments);
    }
    let name = arguments.get(1).map_or("store", String::as_str);
    let calls: i64 = arguments.get(2).map_or(10, |calls| calls.parse().unwrap());
    let runtime = runtime();
    let stub = Stub::default();
    let config = sdk_config(&stub);
    let parts: Vec<_> = case.split('/').collect();
    let compressed = parts.get(2).is_none_or(|form| *form == "compressed");
    let stores = Stores::new(&config, compressed);
    let response = match parts.get(1) {
        Some(size) => ours::orders(size),
        None => RESPONSE.to_owned(),
    };
    let is_fresh = match parts[0] {
        "fresh" | "stored" => true,
        "duplicate" | "replayed" => false,
        other => panic!("there is no case {other}"),
    };
    // Makes one fresh call, whose record every duplicate then finds.
    if !is_fresh {
        stub.keep();
        if name.starts_with("engine") {
            // The engine compares the validation digest, so an operation must write the record.
            runtime.block_on(Operation::over(stores.named("engine")).call(0));
        } else {
            runtime.block_on(ours::call(&stores.named("store"), 0, response.clone()));
        }
        let written = stub.kept();
        stub.refuse(&written);
    }
    let mut run = prepare(is_fresh, name, response, &config, &stores, &runtime);
    // The first calls fill what is initialised once.
    for number in 0..3 {
        run(number);
    }
    let sent = stub.sent();
    counted_calls(&mut || (3..3 + calls).for_each(&mut run));
    println!("{}", (stub.sent() - sent) / calls.unsigned_abs());
}
