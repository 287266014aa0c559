//! Claims and completes over an HTTP client that replies at once, so that callgrind counts what the DynamoDB client costs.
//!
//! `benches/client/instructions.sh` runs it. `client NAME [CALLS]` runs one contestant:
//!
//! | name | what sends the two requests |
//! |---|---|
//! | `by-hand` | the SDK with its default settings, `PutItem` and `UpdateItem` as the best engineer would write them |
//! | `store` | our store, on a client that it makes from an `SdkConfig` |
//! | `lean` | our store, on the lean client |
//!
//! `client loopback [ROUNDS] [CALLS]` compares the CPU time of the three over connections.

mod by_hand;
mod loopback;
mod stub;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_types::timeout::TimeoutConfig;
use idempotency_core::owner::OwnerToken;
use idempotency_core::protocol::condition::{claimable, held_by};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::record::{Attribute, Data, Field, Record, RecordId, Status};
use idempotency_core::store::{Change, SendLog, Store, Write, WriteOutcome};
use idempotency_core::time::{EpochMillis, EpochSeconds};
use idempotency_dynamodb::{DynamoDbStore, LeanClient};

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

/// Returns our store on the lean client.
fn lean_store(config: &SdkConfig) -> DynamoDbStore {
    let builder = DynamoDbStore::builder().table("payments");
    let client = LeanClient::from_sdk_config(config);
    builder.lean_client(client).build().unwrap()
}

/// One call that is not a duplicate: a claim and its completion, through a store.
async fn call(store: &dyn Store, number: i64) {
    let id = RecordId::new(format!(
        "shop.charge#{:032x}",
        0x42b7_b4f2_9217_88ea_u64 as i64 + number
    ));
    let owner = OwnerToken::from_bytes([number as u8; 16]);
    let now = EpochMillis::new(1_700_000_000_999 + number);
    let claim = Record {
        expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
        in_progress_expiration: Field::Value(EpochMillis::new(1_700_000_010_500)),
        status: Field::Value(Status::InProgress),
        validation: Field::Value("c4ca4238a0b923820dcc509a6f75849b".to_owned()),
        owner: Field::Value(owner.clone()),
        operation: Field::Value("shop::charge".to_owned()),
        ..Record::default()
    };
    let (put, condition) = (Write::Put(claim), claimable(now, OnTimeout::Rerun));
    let log = SendLog::with_limit(std::time::Duration::from_secs(10));
    let claimed = store.write(&id, &put, &condition, &log).await;
    assert!(matches!(claimed, WriteOutcome::Applied), "{claimed:?}");
    let change = Change {
        set: Record {
            expiration: Field::Value(EpochSeconds::new(1_700_003_600)),
            status: Field::Value(Status::Completed),
            data: Field::Value(Data::new(RESPONSE)),
            ..Record::default()
        },
        remove: vec![Attribute::InProgressExpiration, Attribute::Owner],
    };
    let (update, condition) = (Write::Update(change), held_by(&owner));
    let log = SendLog::with_limit(std::time::Duration::from_secs(10));
    let completed = store.write(&id, &update, &condition, &log).await;
    assert!(matches!(completed, WriteOutcome::Applied), "{completed:?}");
}

/// The function that callgrind counts. It must not be inlined: callgrind finds it by its name.
#[inline(never)]
fn counted_calls(run: &mut dyn FnMut()) {
    run();
    std::hint::black_box(());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("store", String::as_str);
    if name == "loopback" || name == "serve" {
        return loopback::run(&arguments);
    }
    let calls: i64 = arguments.get(1).map_or(10, |calls| calls.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let stub = Stub::default();
    let config = sdk_config(&stub);
    let mut run: Box<dyn FnMut(i64)> = match name {
        "by-hand" => {
            let client = aws_sdk_dynamodb::Client::new(&config);
            Box::new(move |number| runtime.block_on(by_hand::call(&client, number)))
        }
        "store" => {
            let store = DynamoDbStore::from_sdk_config(&config, "payments").unwrap();
            Box::new(move |number| runtime.block_on(call(&store, number)))
        }
        "lean" => {
            let store = lean_store(&config);
            Box::new(move |number| runtime.block_on(call(&store, number)))
        }
        other => panic!("there is no contestant {other}"),
    };
    // The first calls fill what is initialised once.
    for number in 0..3 {
        run(number);
    }
    let sent = stub.sent();
    counted_calls(&mut || (3..3 + calls).for_each(&mut run));
    let sent = (stub.sent() - sent) / calls.unsigned_abs();
    println!("{name}: {sent} bytes a call");
}
