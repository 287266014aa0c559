//! The conformance suite of the testkit.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Attribute, Field, RecordId};
use idempotency_core::store::{Store, StoreScan};
use idempotency_lambda::BoxError;
use idempotency_testkit::ManualClock;
use idempotency_testkit::conformance::{
    ForeignRecord, ForeignValue, StoreFactory, assert_conformance,
};
use idempotency_testkit::store::StoreOperation;
use idempotency_tests::valkey::{Server, record};
use idempotency_tests::{Proxy, WireFault};
use idempotency_valkey::ValkeyStore;

struct Factory {
    server: Server,
    proxy: Proxy,
}

impl Factory {
    fn build(&self) -> Result<Arc<ValkeyStore>, BoxError> {
        // The suite does not test encryption.
        let store = ValkeyStore::builder(self.proxy.url()).unencrypted_events(true);
        Ok(Arc::new(store.build()?))
    }
}

impl StoreFactory for Factory {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
        Box::pin(async { Ok(self.build()? as Arc<dyn Store>) })
    }

    fn listing(&self) -> Option<BoxFuture<'_, Result<Arc<dyn StoreScan>, BoxError>>> {
        Some(Box::pin(async { Ok(self.build()? as Arc<dyn StoreScan>) }))
    }

    fn plant<'a>(
        &'a self,
        id: &'a RecordId,
        foreign: &'a ForeignRecord,
    ) -> Option<BoxFuture<'a, Result<(), BoxError>>> {
        Some(Box::pin(async {
            let key = format!("idempotency:{{{}}}", id.as_str());
            let fields = foreign.attributes.iter();
            let fields: Vec<_> = fields
                .map(|(name, value)| (name, bytes(foreign, name, value)))
                .collect();
            let value = record::value(fields.iter().map(|(name, it)| (name.as_str(), &**it)));
            let reply = self.server.ask_bytes(&[b"SET", key.as_bytes(), &value]);
            (reply.text() == "OK")
                .then_some(())
                .ok_or("it is not written".into())
        }))
    }

    fn lose_next_reply(&self, operation: StoreOperation) -> bool {
        if !matches!(
            operation,
            StoreOperation::Put | StoreOperation::Update | StoreOperation::Delete
        ) {
            return false;
        }
        let mut is_done = false;
        self.proxy.choose(move |request| {
            // The script, the number of keys, the key, and of a write two values. The start is no write of a record.
            let reads = request.arguments.len() == 3;
            let is_next = !is_done && !reads && !request.says("#warm-up");
            is_done |= is_next;
            is_next.then_some(WireFault::LoseReply)
        });
        true
    }
}

/// Returns the value as another program writes it into a field, which has bytes alone: what a store cannot read is no text.
fn bytes(foreign: &ForeignRecord, name: &str, value: &ForeignValue) -> Vec<u8> {
    fn json(value: &ForeignValue) -> String {
        match value {
            ForeignValue::Text(text) => serde_json::json!(text).to_string(),
            ForeignValue::Number(number) => number.clone(),
            ForeignValue::Bool(value) => value.to_string(),
            ForeignValue::List(values) => {
                let values: Vec<_> = values.iter().map(json).collect();
                format!("[{}]", values.join(","))
            }
            ForeignValue::Map(values) => {
                let values = values
                    .iter()
                    .map(|(name, it)| format!("{}:{}", serde_json::json!(name), json(it)));
                format!("{{{}}}", values.collect::<Vec<_>>().join(","))
            }
            _ => "null".to_owned(),
        }
    }
    let mut attributes = Attribute::ALL.into_iter();
    let attribute = attributes.find(|attribute| attribute.default_name() == name);
    match attribute.map(|attribute| foreign.reads_as.field(attribute)) {
        Some(Field::Unreadable) => vec![0xff],
        _ => match value {
            ForeignValue::Text(text) => text.clone().into_bytes(),
            other => json(other).into_bytes(),
        },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_conforms() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let proxy = Proxy::start(server.address()).await?;
    let factory = Factory { server, proxy };
    // Ahead, so that the server does not delete what the suite considers expired.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let ahead = now + Duration::from_secs(7 * 24 * 60 * 60);
    let clock = ManualClock::at(i64::try_from(ahead.as_millis())?);
    let report = assert_conformance(factory, &clock).await;
    let skipped = |why: &str| {
        report
            .skipped()
            .filter(|(_, reason)| reason.contains(why))
            .count()
    };
    let reasons = [
        "no limit on a record's size",
        "stages no writes",
        "begins no transactions",
    ];
    assert_eq!(reasons.map(skipped), [4, 9, 7]);
    assert_eq!(report.skipped().count(), 20, "{report}");
    // Past the capture of the test harness.
    let _ = writeln!(std::io::stderr(), "{report}");
    Ok(())
}
