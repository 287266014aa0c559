//! Calls through our store: with the requests of the protocol alone, or as whole operations.

use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use idempotency_core::config::{Settings, Variables};
use idempotency_core::engine::{Backend, Codec, Errors};
use idempotency_core::error::Error;
use idempotency_core::future::BoxFuture;
use idempotency_core::operation::CompiledOperation;
use idempotency_core::protocol::policy::Policy;
use idempotency_core::protocol::{
    Attempt, CallEnd, CallTerms, ClaimEnd, Effect, HandlerResult, Input, Lease, Resolution,
    WriteResult,
};
use idempotency_core::random::{Random, RandomError};
use idempotency_core::record::{Data, OwnerToken, RecordId};
use idempotency_core::store::{SendLog, Store, StoreLimits, StoreReply, StoreRequest};
use idempotency_core::time::{Clock, EpochMillis};
use idempotency_dynamodb::{DynamoDbStore, sdk_client};
use serde_json::Value;

/// The time of each call. [`DEADLINE`] is the end of its invocation.
const NOW: EpochMillis = EpochMillis::new(1_700_000_000_999);
pub(crate) const DEADLINE: EpochMillis = EpochMillis::new(1_700_000_010_500);

/// Our store on each client.
pub(crate) struct Stores {
    sdk: Arc<DynamoDbStore>,
    lean: Arc<DynamoDbStore>,
}

impl Stores {
    pub(crate) fn new(config: &SdkConfig, compressed: bool) -> Self {
        let builder = || {
            let builder = DynamoDbStore::builder().table("payments");
            builder.compress_above(compressed.then_some(16 * 1024))
        };
        let sdk = builder().client(sdk_client(config));
        Self {
            sdk: Arc::new(sdk.build().unwrap()),
            lean: Arc::new(builder().sdk_config(config).build().unwrap()),
        }
    }

    /// Returns the store of a contestant.
    pub(crate) fn named(&self, name: &str) -> Arc<DynamoDbStore> {
        Arc::clone(match name {
            "store" | "engine" => &self.sdk,
            "lean" | "engine-lean" => &self.lean,
            other => panic!("there is no contestant {other}"),
        })
    }
}

fn terms(number: i64) -> CallTerms {
    let owner = u128::from(number.unsigned_abs()) + 1;
    CallTerms {
        id: RecordId::new(format!(
            "shop.charge#{:032x}",
            0x42b7_b4f2_9217_88ea_u64 as i64 + number
        )),
        owner: OwnerToken::from_bytes(owner.to_be_bytes()),
        validation: Some("c4ca4238a0b923820dcc509a6f75849b".to_owned()),
        deadline: Some(DEADLINE),
        lease: Lease::Until(DEADLINE),
        operation: Some("shop::charge".to_owned()),
        event: None,
        policy: Policy::default(),
        limits: StoreLimits::NONE,
    }
}

/// Performs a write that the protocol asks for.
async fn write(store: &dyn Store, id: &RecordId, effect: Effect) -> WriteResult {
    let Effect::Write(write, condition) = effect else {
        panic!("a write comes next: {effect:?}")
    };
    let log = SendLog::with_limit(Duration::from_secs(3));
    match store
        .send(StoreRequest::write(id, &write, &condition), &log)
        .await
    {
        StoreReply::Applied { .. } => WriteResult::APPLIED,
        StoreReply::ConditionFailed {
            existing,
            maybe_applied,
            ..
        } => WriteResult::ConditionFailed {
            existing,
            maybe_applied,
        },
        other => panic!("{other:?}"),
    }
}

/// Claims a key. Returns the attempt and its next effect.
async fn claim(store: &DynamoDbStore, number: i64) -> (Attempt, Effect) {
    let attempt = Attempt::begin(terms(number)).0;
    let (attempt, effect) = attempt.step(NOW, Input::Local(None));
    let claim = write(store, &attempt.call().id, effect).await;
    attempt.step(NOW, Input::Written(claim))
}

/// Makes a call that is not a duplicate: claims a key, and completes the claim with this response.
pub(crate) async fn call(store: &DynamoDbStore, number: i64, response: String) {
    let (attempt, effect) = claim(store, number).await;
    assert_eq!(effect, Effect::Run);
    let response = HandlerResult::Returned(Data::new(response));
    let (attempt, effect) = attempt.step(NOW, Input::HandlerEnded(response.into()));
    let completed = write(store, &attempt.call().id, effect).await;
    let (_, effect) = attempt.step(NOW, Input::Written(completed));
    assert!(
        matches!(&effect, Effect::Finish(end) if end.claim == Some(ClaimEnd::Completed)),
        "{effect:?}"
    );
}

/// Makes a duplicate of a completed call. Returns the stored response.
pub(crate) async fn duplicate(store: &DynamoDbStore, number: i64) -> String {
    match claim(store, number).await.1 {
        Effect::Finish(CallEnd {
            resolution: Resolution::Replay { record, .. },
            ..
        }) => record.data.value().unwrap().as_str().to_owned(),
        effect => panic!("the response is replayed: {effect:?}"),
    }
}

/// A clock that always returns [`NOW`], with tokio's timers, and a random source that always returns the same bytes.
pub(crate) struct Bench;

impl Clock for Bench {
    fn now(&self) -> EpochMillis {
        NOW
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}

impl Random for Bench {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        Ok([7; 16])
    }
}

/// An operation with a key and a validated part, as in a function.
pub(crate) struct Operation {
    backend: Backend,
    operation: CompiledOperation,
}

impl Operation {
    pub(crate) fn over(store: Arc<DynamoDbStore>) -> Self {
        let settings = Settings {
            key: Some("order_id".into()),
            validate: Some("amount".into()),
            ..Settings::default()
        };
        let operation = CompiledOperation::new("shop::charge", &settings, &Variables::default());
        Self {
            backend: Backend::new(store, Arc::new(Bench), Arc::new(Bench)),
            operation: operation.unwrap(),
        }
    }

    /// Makes a call, from the text of its event to its response.
    pub(crate) async fn call(&self, number: i64) -> Value {
        let event = format!(r#"{{"order_id":"o-{number}","amount":4200,"currency":"EUR"}}"#);
        let identity = self.operation.identify(&event, None).unwrap();
        let handler = async |_| Ok(serde_json::from_str::<Value>(crate::RESPONSE).unwrap());
        let errors = Errors::new(|error: Error| error);
        let call = self.operation.run(
            &self.backend,
            &identity,
            Some(DEADLINE),
            Codec::json(),
            errors,
            handler,
        );
        call.await.unwrap().into_response()
    }
}

/// Returns a response of JSON of this size, such as `64KB` or `6MB`: a list of orders.
pub(crate) fn orders(size: &str) -> String {
    let number = |unit| {
        size.strip_suffix(unit)
            .map(|size| size.parse::<usize>().unwrap())
    };
    let bytes = match (number("KB"), number("MB")) {
        (Some(kilobytes), _) => kilobytes * 1024,
        (None, Some(megabytes)) => megabytes * 1024 * 1024,
        (None, None) => panic!("{size} is no size"),
    };
    let mut random = fastrand::Rng::with_seed(7);
    let mut random = || random.u64(..);
    const NAMES: [&str; 6] = [
        "espresso",
        "grinder",
        "kettle",
        "paper filter",
        "scale",
        "tamper",
    ];
    let mut text = String::from("[");
    loop {
        let (id, name) = (random(), NAMES[(random() % 6) as usize]);
        let (amount, second) = (random() % 100_000, random() % 86_400);
        let order = format!(
            r#"{{"order_id":"{id:016x}","item":"{name}","quantity":{},"amount":{amount},"currency":"EUR","at":{}}}"#,
            1 + amount % 9,
            1_700_000_000 + second,
        );
        // The last bracket, and a comma.
        if text.len() + order.len() + 2 > bytes {
            break;
        }
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&order);
    }
    text.push(']');
    // Spaces at the end are JSON too: they make the size exact.
    let missing = bytes - text.len();
    text.push_str(&" ".repeat(missing));
    text
}
