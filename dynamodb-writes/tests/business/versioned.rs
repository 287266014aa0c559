//! Versioned items: conflicts, lost replies, parallel writers.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use dynamodb_writes::versioned::{
    Conflict, Update, Version, Versioned, VersionedError, VersionedRefusal, WrittenItem,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault};

use super::{Item, TABLE, key, lose_replies, number, number_in, started, stored, text};

fn items() -> Versioned {
    Versioned::by("version")
}

async fn create(client: &Client) -> Version {
    let create = items()
        .create(TABLE, key("a"))
        .attribute("balance", number(100));
    create.send(client).await.unwrap().version().clone()
}

/// Starts a database with an item, whose balance is 100.
async fn created(sends: u32) -> (EmbeddedDynamoDb, Client, Version) {
    let (db, client) = started(sends).await;
    let first = create(&client).await;
    (db, client, first)
}

fn debit(expected: &Version, amount: i64) -> Update {
    items()
        .update(TABLE, key("a"), expected)
        .expression("SET balance = balance - :n")
        .condition("balance >= :n")
        .value(":n", number(amount))
}

fn conflict(result: Result<WrittenItem, VersionedError>) -> Conflict {
    match result.unwrap_err() {
        VersionedError::Conflict(conflict) => conflict,
        other => panic!("a conflict is expected: {other}"),
    }
}

async fn balance(db: &EmbeddedDynamoDb) -> i64 {
    number_in(&stored(db, "a").await.unwrap(), "balance")
}

#[tokio::test]
async fn deleting_what_is_absent_is_a_success() {
    let (db, client, first) = created(3).await;
    let delete = |version: &Version| items().delete(TABLE, key("a"), version);
    delete(&first).send(&client).await.unwrap();
    let again = delete(&first).condition("balance > :n");
    again.value(":n", number(0)).send(&client).await.unwrap();

    let second = create(&client).await;
    lose_replies(&db, |count| count == 1);
    delete(&second).send(&client).await.unwrap();
    assert!(stored(&db, "a").await.is_none());
}

#[tokio::test]
async fn a_lost_reply_of_a_creation_and_of_an_update_is_a_success() {
    let (db, client) = started(3).await;
    lose_replies(&db, |count| count % 2 == 1);
    let made = items()
        .create(TABLE, key("a"))
        .attribute("balance", number(100));
    let made = made.send(&client).await.unwrap();
    assert!(made.by_earlier_send());
    let debited = debit(made.version(), 30).return_item();
    let written = debited.send(&client).await.unwrap();
    assert!(written.by_earlier_send());
    assert_eq!(written.version().number(), 2);
    assert_eq!(number_in(written.item().unwrap(), "balance"), 70);
    assert_eq!(balance(&db).await, 70);
    // The version that was returned is that of the item.
    debit(written.version(), 1).send(&client).await.unwrap();
}

/// Sends a write whose first send has this fault, and lets `between` happen before the second one arrives.
async fn sent_again<R: Send + 'static>(
    db: &EmbeddedDynamoDb,
    fault: Fault,
    operation: &str,
    write: impl Future<Output = R> + Send + 'static,
    between: impl AsyncFnOnce(),
) -> R {
    db.inject(fault);
    let again = db.inject(Fault::on(operation).nth(2).hold());
    let write = tokio::spawn(write);
    again.reached().await;
    between().await;
    again.release().await;
    write.await.unwrap()
}

/// Loses the reply of an update of version 1, and lets so many other updates happen before it is sent again.
async fn with_others_between(
    between: u32,
) -> (EmbeddedDynamoDb, Result<WrittenItem, VersionedError>) {
    let (db, client, first) = created(3).await;
    let (sender, lost) = (client.clone(), Fault::on("UpdateItem").drop_reply());
    let update = async move { debit(&first, 30).send(&sender).await };
    let written = sent_again(&db, lost, "UpdateItem", update, async || {
        for _ in 0..between {
            let current = items().version(&stored(&db, "a").await.unwrap()).unwrap();
            debit(&current, 1).send(&client).await.unwrap();
        }
    });
    let written = written.await;
    (db, written)
}

#[tokio::test]
async fn an_update_is_recognised_behind_three_others() {
    for between in 0..4 {
        let (db, written) = with_others_between(between).await;
        let written = written.unwrap();
        assert!(written.by_earlier_send());
        assert_eq!(written.version().number(), 2);
        assert_eq!(balance(&db).await, 70 - i64::from(between));
    }
    // Behind more than three others its token is gone.
    let conflict = conflict(with_others_between(4).await.1);
    assert!(conflict.maybe_applied());
    assert_eq!(conflict.version().unwrap().number(), 6);
}

#[tokio::test]
async fn a_lost_request_that_meets_another_write_was_not_applied() {
    let (db, client, first) = created(3).await;
    let (sender, lost) = (client.clone(), Fault::on("UpdateItem").drop_request());
    let expected = first.clone();
    let update = async move { debit(&expected, 30).send(&sender).await };
    let result = sent_again(&db, lost, "UpdateItem", update, async || {
        debit(&first, 1).send(&client).await.unwrap();
    });
    let conflict = conflict(result.await);
    assert!(!conflict.maybe_applied(), "another write made version 2");
    assert_eq!(balance(&db).await, 99);
}

#[tokio::test]
async fn a_write_to_a_deleted_item_does_not_change_the_item_that_was_created_again() {
    let (db, client, first) = created(3).await;
    let (sender, lost) = (client.clone(), Fault::on("DeleteItem").drop_reply());
    let delete = items().delete(TABLE, key("a"), &first);
    let delete = async move { delete.send(&sender).await };
    let mut second = Version::NONE;
    let result = sent_again(&db, lost, "DeleteItem", delete, async || {
        second = create(&client).await;
    });
    let late = conflict(result.await);
    assert!(late.maybe_applied(), "the earlier item was deleted");
    assert_eq!(late.version(), Some(&second));

    let late = conflict(debit(&first, 30).send(&client).await);
    assert!(!late.maybe_applied());
    assert_eq!(balance(&db).await, 100);
}

#[tokio::test]
async fn parallel_writers_that_decide_again_lose_no_update() {
    const WRITERS: i64 = 8;
    const DEBITS: i64 = 10;
    let (db, client) = started(5).await;
    create(&client).await;
    // One reply in seven is lost.
    lose_replies(&db, |count| count % 7 == 0);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = client.clone();
            tokio::spawn(async move {
                let own = format!("debits_of_{writer}");
                let mut version = Version::from_number(1);
                let mut applied = 0;
                while applied < DEBITS {
                    let debit = debit(&version, 1)
                        .expression("SET balance = balance - :n, #own = :applied")
                        .name("#own", &own)
                        .value(":applied", number(applied + 1));
                    match debit.send(&client).await {
                        Ok(written) => {
                            applied += 1;
                            version = written.version().clone();
                        }
                        Err(VersionedError::Conflict(conflict)) => {
                            version = conflict.version().unwrap().clone();
                            // Looks at the item, as the error says: it has the last debit of each writer.
                            let known = conflict.current().unwrap().get(&own);
                            let done = known == Some(&number(applied + 1));
                            assert!(!done || conflict.maybe_applied());
                            applied += i64::from(done);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let item = stored(&db, "a").await.unwrap();
    assert_eq!(number_in(&item, "balance"), 100 - WRITERS * DEBITS);
    assert_eq!(number_in(&item, "version"), 1 + WRITERS * DEBITS);
}

#[tokio::test]
async fn a_prepared_write_is_part_of_a_transaction() {
    let (db, client, first) = created(1).await;
    let prepared = debit(&first, 30).prepare().unwrap();
    let other = items().create(TABLE, key("b")).prepare().unwrap();
    let transaction = || {
        client
            .transact_write_items()
            .transact_items(prepared.transact_item())
            .transact_items(other.transact_item())
            .send()
    };
    transaction().await.unwrap();
    assert_eq!(balance(&db).await, 70);

    // The same transaction again, as after a lost reply: the update is recognised by its token.
    let cancelled = transaction().await.unwrap_err().into_service_error();
    assert_eq!(cancelled.code(), Some("TransactionCanceledException"));
    let current = stored(&db, "a").await;
    let VersionedRefusal::Applied(written) = prepared.refusal(current, true) else {
        panic!("the write was applied");
    };
    assert_eq!(written.version().number(), 2);
    let created = other.refusal(stored(&db, "b").await, true);
    assert!(matches!(created, VersionedRefusal::Applied(_)));
    assert_eq!(balance(&db).await, 70);
}

#[tokio::test]
async fn a_request_that_fails_says_if_the_write_may_have_been_applied() {
    let (db, client, first) = created(1).await;
    let update = || Fault::on("UpdateItem");
    let throttled = Some("ProvisionedThroughputExceededException");
    let failed = Some("InternalServerError");
    for (fault, maybe, code) in [
        (update().throttle(), false, throttled),
        (update().internal_error_although_applied(), true, failed),
        (update().drop_request(), true, None),
    ] {
        db.inject(fault);
        let error = debit(&first, 77).send(&client).await.unwrap_err();
        let VersionedError::Request(request) = &error else {
            panic!("a failed request is expected: {error}");
        };
        assert_eq!(request.maybe_applied(), maybe, "{error}");
        assert_eq!(request.code(), code, "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains("accounts") && !text.contains("77"), "{text}");
    }
}

#[tokio::test]
async fn debug_shows_no_attribute_of_an_item() {
    let (_db, client) = started(1).await;
    let create = items()
        .create(TABLE, key("a"))
        .attribute("balance", text("secret"));
    let creation = format!("{create:?}");
    let written = create.send(&client).await.unwrap();
    let update = items()
        .update(TABLE, key("a"), written.version())
        .return_item();
    let update = update.expression("SET balance = :n");
    let update = update.value(":n", text("secret"));
    let prepared = update.clone().prepare();
    let applied = update.clone().send(&client).await;
    let conflict = update.clone().send(&client).await;
    let delete = items().delete(TABLE, key("a"), &Version::from_number(2));
    let delete = delete.condition("attribute_not_exists(balance)");
    let refused = delete.clone().send(&client).await;
    let texts = format!(
        "{creation} {update:?} {prepared:?} {applied:?} {conflict:?} {delete:?} {refused:?}"
    );
    assert!(!texts.contains("secret"), "{texts}");
}

// Items and attributes of other programs, and what is refused before it is sent.

#[tokio::test]
async fn an_item_of_another_program_becomes_a_versioned_one() {
    let (db, client) = started(1).await;
    let put = [("id", text("a")), ("balance", number(100))];
    db.put(TABLE, put).await.unwrap();
    let item = stored(&db, "a").await.unwrap();
    assert_eq!(items().version(&item), Ok(Version::NONE));
    let written = debit(&Version::NONE, 1).send(&client).await.unwrap();
    assert_eq!(written.version().number(), 1);
    let late = conflict(debit(&Version::NONE, 1).send(&client).await);
    assert_eq!(late.version(), Some(written.version()));
    let absent = items()
        .update(TABLE, key("b"), &Version::NONE)
        .expression("SET x = :x");
    let absent = absent.value(":x", number(1)).send(&client).await;
    assert!(conflict(absent).current().is_none());

    // A number alone, which another program raised.
    let mut item = stored(&db, "a").await.unwrap();
    item.insert("version".to_owned(), number(7));
    db.put(TABLE, item).await.unwrap();
    let seven = debit(&Version::from_number(7), 1);
    let written = seven.send(&client).await.unwrap();
    assert_eq!(written.version().number(), 8);
    let written = debit(written.version(), 1).send(&client).await.unwrap();
    assert_eq!((written.version().number(), balance(&db).await), (9, 97));
    let odd = Item::from([("version".to_owned(), text("7"))]);
    assert!(items().version(&odd).is_err());
}

#[tokio::test]
async fn an_item_of_another_program_with_version_zero_becomes_a_versioned_one() {
    let (db, client) = started(1).await;
    let put = async || {
        let balance = ("balance", number(100));
        let item = [("id", text("a")), balance, ("version", number(0))];
        db.put(TABLE, item).await.unwrap();
    };
    put().await;
    let read = items().version(&stored(&db, "a").await.unwrap()).unwrap();
    let written = debit(&read, 1).send(&client).await.unwrap();
    assert_eq!((written.version().number(), balance(&db).await), (1, 99));
    // Version 0 is gone.
    assert!(!conflict(debit(&read, 1).send(&client).await).maybe_applied());
    put().await;
    let delete = items().delete(TABLE, key("a"), &read);
    delete.send(&client).await.unwrap();
    assert!(stored(&db, "a").await.is_none());
}

#[tokio::test]
async fn a_key_with_an_attribute_of_ours_is_refused_before_it_is_sent() {
    let (db, client) = started(1).await;
    let key = || [("id", text("a")), ("version", number(7))];
    let one = Version::from_number(1);
    let update = items().update(TABLE, key(), &one).expression("REMOVE hold");
    for refused in [
        items().create(TABLE, key()).send(&client).await,
        update.send(&client).await,
        items().delete(TABLE, key(), &one).send(&client).await,
    ] {
        let error = refused.unwrap_err().to_string();
        let says = error.contains("the key has the attribute `version`");
        assert!(says, "{error}");
    }
    assert!(db.requests().is_empty());
}

#[tokio::test]
async fn the_version_attribute_can_have_another_name() {
    let (db, client) = started(1).await;
    let items = Versioned::by("rev");
    let create = items.create(TABLE, key("a"));
    let create = create.attribute("version", text("mine"));
    let made = create.send(&client).await.unwrap();
    let update = items.update(TABLE, key("a"), made.version());
    let update = update.expression("SET version = :mine");
    let update = update.value(":mine", text("still"));
    let written = update.send(&client).await.unwrap();
    let item = stored(&db, "a").await.unwrap();
    assert_eq!(items.version(&item).as_ref(), Ok(written.version()));
    assert_eq!(item["version"], text("still"));
    let delete = items.delete(TABLE, key("a"), written.version());
    delete.send(&client).await.unwrap();
    let requests = db.requests().into_iter().map(|request| request.operation);
    let writes = requests.filter(|operation| operation != "GetItem").count();
    assert_eq!(writes, 3, "one request for each write");
}

#[tokio::test]
async fn what_would_break_the_version_is_refused_before_it_is_sent() {
    let (db, client) = started(1).await;
    let one = Version::from_number(1);
    let mut refused = Vec::new();
    for (name, value) in [("version", number(9)), ("id", text("b"))] {
        let create = items().create(TABLE, key("a")).attribute(name, value);
        refused.push(create.send(&client).await);
    }
    for update in [
        debit(&one, 1).expression("SET version = :n"),
        debit(&one, 1).expression("REMOVE version_w1"),
        debit(&one, 1).condition("balance >= :n) OR (balance < :n"),
        debit(&Version::from_number(u64::MAX), 1),
    ] {
        refused.push(update.send(&client).await);
    }
    for result in refused {
        let is_invalid = matches!(result, Err(VersionedError::Invalid(_)));
        assert!(is_invalid, "{result:?}");
    }
    assert!(db.requests().is_empty());
}
