//! Steps at their limits: takeovers whose replies are lost, results that do not fit, large responses beside them, other payloads.

use idempotency_lambda::{Call, ErrorKind};
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use idempotency_testkit::store::{StoreFault, StoreOperation};

use super::*;

/// Returns a shop whose first run died after `reserve` and `charge` were recorded.
async fn killed_after_charge(database: &EmbeddedDynamoDb, table: &str) -> Shop {
    let shop = Shop::new(database, table, Steps::Keep).await;
    shop.die((StoreOperation::Step, 2), StoreFault::HangAfter)
        .await;
    shop
}

#[tokio::test]
async fn a_takeover_survives_each_fault_of_its_requests() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    for fault in [
        StoreFault::LoseReply,
        StoreFault::LoseRequest,
        StoreFault::Resend,
    ] {
        let shop = killed_after_charge(&database, &format!("{fault:?}")).await;
        shop.store.inject(StoreOperation::Update, 1, fault);
        shop.finish().await;
        assert_eq!(shop.world.counts(), [1, 1, 1], "{fault:?}");
    }
    // Not even a read: the call ends, and releases what it may have taken over. The steps stay.
    for fault in [StoreFault::LoseReply, StoreFault::LoseRequest] {
        let shop = killed_after_charge(&database, &format!("read-{fault:?}")).await;
        shop.store.inject(StoreOperation::Update, 1, fault);
        shop.store
            .inject(StoreOperation::Read, 1, StoreFault::LoseRequest);
        let error = shop.place_quietly().await.unwrap_err();
        assert_eq!(ours(&error).kind(), ErrorKind::StoreFailed);
        shop.clock.advance(Duration::from_secs(31));
        shop.finish().await;
        assert_eq!(shop.world.counts(), [1, 1, 1], "{fault:?}");
    }
}

#[tokio::test]
async fn steps_of_another_payload_are_not_used() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    // Without `validate` the whole payload is validated.
    for (number, validate) in [Some("amount"), None].into_iter().enumerate() {
        for steps in [Steps::Keep, Steps::Forget] {
            let table = format!("payloads-{number}-{steps:?}");
            let mut shop = Shop::new(&database, &table, steps).await;
            let mut place = operation().key("order_id").steps(steps);
            if let Some(validate) = validate {
                place = place.validate(validate);
            }
            shop.place = place.build().unwrap();
            buys_another(&shop, steps).await;
        }
    }
}

/// Checks that a run which is killed after its first step, and under `keep` one that fails there, keeps another payload out.
async fn buys_another(shop: &Shop, steps: Steps) {
    let place = async |amount: u32| {
        let process = shop.process();
        let deadline = Deadline::At(shop.clock.now().plus(Duration::from_secs(30)));
        let order = async |call: Call| {
            let reserved = call.step("reserve", || shop.world.effect("reserve", "t".to_owned()));
            reserved.await?;
            Err::<Vec<String>, BoxError>("the bank is closed".into())
        };
        let payload = json!({ "order_id": 1, "amount": amount });
        let placed = shop.place.run(&payload, deadline, order);
        with_backend(process, placed).await.unwrap_err()
    };
    shop.store
        .inject(StoreOperation::Step, 1, StoreFault::HangAfter);
    tokio::select! {
        _ = place(1) => panic!("the process did not die"),
        () = shop.store.hung() => {}
    }
    shop.clock.advance(Duration::from_secs(31));
    assert_eq!(ours(&place(2).await).kind(), ErrorKind::PayloadMismatch);
    assert_eq!(place(1).await.to_string(), "the bank is closed");
    assert_eq!(shop.world.counts(), [1, 0, 0], "it is recorded");
    shop.clock.advance(Duration::from_millis(1));
    if steps == Steps::Keep {
        assert_eq!(ours(&place(2).await).kind(), ErrorKind::PayloadMismatch);
        // The window of the steps ends: another payload begins a new run.
        shop.clock.advance(Duration::from_secs(3_602));
    }
    assert_eq!(place(2).await.to_string(), "the bank is closed");
    assert_eq!(shop.world.counts(), [2, 0, 0]);
}

#[tokio::test]
async fn a_record_that_steps_fill_is_taken_over_without_its_event() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    database.create_table(TableSpec::new("full")).await.unwrap();
    let table = store_on(&database).table("full");
    let store = table.unencrypted_events(true).build().unwrap();
    let mut shop = Shop::new(&database, "unused", Steps::Keep).await;
    shop.store = Arc::new(FaultyStore::new(store));
    let place = operation().key("order_id").validate("order_id");
    let place = place.store_event("all").steps(Steps::Keep);
    shop.place = place.build().unwrap();
    let place = async |note: String, fails: bool| {
        let deadline = Deadline::At(shop.clock.now().plus(Duration::from_secs(30)));
        let order = async |call: Call| {
            let result = async { Ok::<_, BoxError>(noise(480_000)) };
            let full: String = call.step("reserve", || result).await?;
            if fails {
                return Err("the bank is closed".into());
            }
            Ok(vec![full.len().to_string()])
        };
        let payload = json!({ "order_id": 1, "note": note });
        let placed = shop.place.run(&payload, deadline, order);
        with_backend(shop.process(), placed).await
    };
    let failed: Result<Outcome<Vec<String>>, BoxError> = place("short".to_owned(), true).await;
    assert_eq!(failed.unwrap_err().to_string(), "the bank is closed");
    shop.clock.advance(Duration::from_millis(1));
    let outcome = place(noise(60_000), false).await.unwrap();
    assert_eq!(outcome.response(), &["480000"]);
}

/// Returns a text that zstd cannot make much smaller.
fn noise(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b' ' + u8::try_from(state % 90).unwrap())
    };
    let text: String = (0..bytes).map(|_| letter()).collect();
    text.replace(['"', '\\'], "x")
}

#[tokio::test]
async fn results_share_the_record_and_a_response_of_any_size_completes_it() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let shop = Shop::new(&database, "large", Steps::Keep).await;
    let deadline = Deadline::At(shop.clock.now().plus(Duration::from_secs(30)));
    let large = async |call: Call| {
        let result = async |bytes| Ok::<_, BoxError>(noise(bytes));
        let first: String = call.step("a", || result(300_000)).await?;
        let second = call.step("b", || result(300_000)).await.unwrap_err();
        assert_eq!(ours(&second).kind(), ErrorKind::StepNotRecorded);
        assert!(second.to_string().contains("too large"), "{second}");
        let compressed: String = call
            .step("c", || async { Ok::<_, BoxError>("c".repeat(1_000_000)) })
            .await?;
        assert_eq!((first.len(), compressed.len()), (300_000, 1_000_000));
        // All results of a key have 6,291,556 bytes at most, however small they are when compressed.
        let longest = call.step("d", || async { Ok::<_, BoxError>("d".repeat(5_000_000)) });
        let refused = longest.await.unwrap_err();
        assert_eq!(ours(&refused).kind(), ErrorKind::StepNotRecorded);
        Ok::<_, BoxError>(vec![noise(1_500_000)])
    };
    let payload = json!({ "order_id": 1 });
    let placed = shop.place.run(&payload, deadline, large);
    let outcome = with_backend(shop.process(), placed).await.unwrap();
    let again = shop.place_quietly().await.unwrap();
    assert!(again.is_replayed());
    assert_eq!(again.response(), outcome.response());
}

#[tokio::test]
async fn results_that_were_compressed_are_those_of_the_next_run() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let shop = Shop::new(&database, "compressed", Steps::Keep).await;
    let long = "long ".repeat(20_000);
    for (run, fails) in [(0, true), (1, false)] {
        let deadline = Deadline::At(shop.clock.now().plus(Duration::from_secs(30)));
        let order = async |call: Call| {
            let result = call.step("reserve", || async {
                assert_eq!(run, 0, "it is recorded");
                Ok::<_, BoxError>(long.clone())
            });
            let result: String = result.await?;
            assert!(result == long);
            if fails {
                return Err("the bank is closed".into());
            }
            Ok(vec![])
        };
        let payload = json!({ "order_id": 1 });
        let placed = shop.place.run(&payload, deadline, order);
        let ended: Result<Outcome<Vec<String>>, BoxError> =
            with_backend(shop.process(), placed).await;
        assert_eq!(ended.is_err(), fails);
        shop.clock.advance(Duration::from_millis(1));
    }
}
