//! Versioned items: conflicts, lost replies, parallel writers.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use dynamodb_writes::versioned::{
    self, Conflict, InvalidVersion, Update, Version, Versioned, VersionedError, VersionedRefusal,
    WrittenItem,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault};

use super::{
    Item, TABLE, client, database, key, lose_replies, number, number_in, started, stored, text,
};

async fn create(client: &Client) -> Version {
    let create = versioned::create(TABLE, key("a")).attribute("balance", number(100));
    create.send(client).await.unwrap().version().clone()
}

/// Starts a database with an item, whose balance is 100.
async fn created(sends: u32) -> (EmbeddedDynamoDb, Client, Version) {
    let (db, client) = started(sends).await;
    let first = create(&client).await;
    (db, client, first)
}

fn debit(expected: &Version, amount: i64) -> Update {
    versioned::update(TABLE, key("a"), expected)
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
async fn an_item_is_created_updated_and_deleted_by_its_version() {
    let (db, client, first) = created(1).await;
    assert_eq!(first.number(), 1);
    assert_eq!(
        Version::of(&stored(&db, "a").await.unwrap()).unwrap(),
        first
    );

    let written = debit(&first, 30).return_item().send(&client).await.unwrap();
    assert_eq!(written.version().number(), 2);
    assert!(!written.by_earlier_send());
    assert_eq!(number_in(written.item().unwrap(), "balance"), 70);
    let second = Version::of(written.item().unwrap()).unwrap();
    assert_eq!(written.version(), &second);

    let deleted = versioned::delete(TABLE, key("a"), &second).return_item();
    let deleted = deleted.send(&client).await.unwrap();
    assert_eq!(number_in(deleted.item().unwrap(), "balance"), 70);
    assert_eq!(deleted.version(), &Version::NONE);
    assert!(stored(&db, "a").await.is_none());
    assert_eq!(
        db.requests()
            .iter()
            .filter(|request| request.operation != "GetItem")
            .count(),
        3
    );
}

#[tokio::test]
async fn another_version_is_a_conflict_with_the_current_item() {
    let (db, client, first) = created(1).await;
    debit(&first, 30).send(&client).await.unwrap();

    let stale = conflict(debit(&first, 1).send(&client).await);
    assert_eq!(number_in(stale.current().unwrap(), "balance"), 70);
    assert_eq!(stale.version().unwrap().number(), 2);
    assert!(!stale.maybe_applied());
    let current = stale.version().unwrap().clone();
    let stale = conflict(
        versioned::delete(TABLE, key("a"), &first)
            .send(&client)
            .await,
    );
    assert_eq!(stale.version(), Some(&current));
    let present = versioned::create(TABLE, key("a")).send(&client).await;
    assert_eq!(conflict(present).version(), Some(&current));
    assert_eq!(balance(&db).await, 70);

    // The conflict has the version for the next try.
    debit(&current, 1).send(&client).await.unwrap();
    let absent = versioned::update(TABLE, key("b"), &current).expression("REMOVE x");
    assert!(conflict(absent.send(&client).await).current().is_none());
}

#[tokio::test]
async fn a_condition_of_the_caller_differs_from_a_conflict() {
    let (db, client, first) = created(1).await;
    let error = debit(&first, 101).send(&client).await.unwrap_err();
    let VersionedError::ConditionFailed(failed) = error else {
        panic!("a failed condition is expected: {error}");
    };
    assert_eq!(number_in(failed.current(), "balance"), 100);
    let delete = versioned::delete(TABLE, key("a"), &first);
    let delete = delete.condition("balance = :zero OR #s = :zero");
    let delete = delete.value(":zero", number(0)).name("#s", "state");
    let error = delete.send(&client).await.unwrap_err();
    assert!(
        matches!(error, VersionedError::ConditionFailed(_)),
        "{error}"
    );
    assert_eq!(balance(&db).await, 100);
}

#[tokio::test]
async fn deleting_what_is_absent_is_a_success() {
    let (db, client, first) = created(3).await;
    let delete = || versioned::delete(TABLE, key("a"), &first);
    delete().send(&client).await.unwrap();
    delete().send(&client).await.unwrap();
    delete()
        .condition("balance > :n")
        .value(":n", number(0))
        .send(&client)
        .await
        .unwrap();

    let second = create(&client).await;
    lose_replies(&db, |count| count == 1);
    versioned::delete(TABLE, key("a"), &second)
        .send(&client)
        .await
        .unwrap();
    assert!(stored(&db, "a").await.is_none());
}

#[tokio::test]
async fn a_lost_reply_of_a_creation_and_of_an_update_is_a_success() {
    let (db, client) = started(3).await;
    lose_replies(&db, |count| count % 2 == 1);
    let made = versioned::create(TABLE, key("a")).attribute("balance", number(100));
    let made = made.send(&client).await.unwrap();
    assert!(made.by_earlier_send());
    let written = debit(made.version(), 30)
        .return_item()
        .send(&client)
        .await
        .unwrap();
    assert!(written.by_earlier_send());
    assert_eq!(written.version().number(), 2);
    assert_eq!(number_in(written.item().unwrap(), "balance"), 70);
    assert_eq!(balance(&db).await, 70);
    // The version that was returned is that of the item.
    debit(written.version(), 1).send(&client).await.unwrap();
}

/// Loses the reply of an update of version 1, lets `between` other updates happen before it is sent again, and returns its
/// result.
async fn with_others_between(
    db: &EmbeddedDynamoDb,
    between: u32,
) -> Result<WrittenItem, VersionedError> {
    let client = client(db, 3);
    let first = create(&client).await;
    db.inject(Fault::on("UpdateItem").drop_reply());
    let again = db.inject(Fault::on("UpdateItem").nth(2).hold());
    let sender = client.clone();
    let update = tokio::spawn(async move { debit(&first, 30).send(&sender).await });
    again.reached().await;
    for _ in 0..between {
        let current = Version::of(&stored(db, "a").await.unwrap()).unwrap();
        debit(&current, 1).send(&client).await.unwrap();
    }
    again.release().await;
    update.await.unwrap()
}

#[tokio::test]
async fn an_update_is_recognised_behind_three_others() {
    for between in 0..4 {
        let db = database().await;
        let written = with_others_between(&db, between).await.unwrap();
        assert!(written.by_earlier_send());
        assert_eq!(written.version().number(), 2);
        assert_eq!(balance(&db).await, 70 - i64::from(between));
    }
}

#[tokio::test]
async fn an_update_behind_more_than_three_others_is_maybe_applied() {
    let db = database().await;
    let conflict = conflict(with_others_between(&db, 4).await);
    assert!(conflict.maybe_applied());
    assert_eq!(conflict.version().unwrap().number(), 6);
}

#[tokio::test]
async fn a_lost_request_that_meets_another_write_was_not_applied() {
    let (db, client, first) = created(3).await;
    db.inject(Fault::on("UpdateItem").drop_request());
    let again = db.inject(Fault::on("UpdateItem").nth(2).hold());
    let (sender, expected) = (client.clone(), first.clone());
    let update = tokio::spawn(async move { debit(&expected, 30).send(&sender).await });
    again.reached().await;
    debit(&first, 1).send(&client).await.unwrap();
    again.release().await;
    let conflict = conflict(update.await.unwrap());
    assert!(
        !conflict.maybe_applied(),
        "the token of version 2 is there, and another one"
    );
    assert_eq!(balance(&db).await, 99);
}

#[tokio::test]
async fn a_write_to_a_deleted_item_does_not_change_the_item_that_was_created_again() {
    let (db, client, first) = created(3).await;
    db.inject(Fault::on("DeleteItem").drop_reply());
    let again = db.inject(Fault::on("DeleteItem").nth(2).hold());
    let (sender, expected) = (client.clone(), first.clone());
    let delete = versioned::delete(TABLE, key("a"), &expected);
    let delete = tokio::spawn(async move { delete.send(&sender).await });
    again.reached().await;
    let second = create(&client).await;
    again.release().await;
    let late = conflict(delete.await.unwrap());
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
    let other = versioned::create(TABLE, key("b")).prepare().unwrap();
    let transaction = || {
        client
            .transact_write_items()
            .transact_items(prepared.transact_item())
            .transact_items(other.transact_item())
            .send()
    };
    transaction().await.unwrap();
    assert_eq!(balance(&db).await, 70);

    // The same transaction again, as after a lost reply: both writes are recognised.
    let cancelled = transaction().await.unwrap_err().into_service_error();
    assert_eq!(cancelled.code(), Some("TransactionCanceledException"));
    let current = stored(&db, "a").await;
    let VersionedRefusal::Applied(written) = prepared.refusal(current, true) else {
        panic!("the write was applied");
    };
    assert_eq!(written.version().number(), 2);
    assert_eq!(balance(&db).await, 70);
}

#[tokio::test]
async fn a_request_that_fails_says_if_the_write_may_have_been_applied() {
    let (db, client, first) = created(1).await;
    for (fault, maybe, code) in [
        (
            Fault::on("UpdateItem").throttle(),
            false,
            Some("ProvisionedThroughputExceededException"),
        ),
        (
            Fault::on("UpdateItem").internal_error_although_applied(),
            true,
            Some("InternalServerError"),
        ),
        (Fault::on("UpdateItem").drop_request(), true, None),
    ] {
        db.inject(fault);
        let error = debit(&first, 77).send(&client).await.unwrap_err();
        let VersionedError::Request(request) = &error else {
            panic!("a failed request is expected: {error}");
        };
        assert_eq!(
            (request.maybe_applied(), request.code()),
            (maybe, code),
            "{error}"
        );
        let text = format!("{error} {error:?}");
        assert!(text.contains("accounts") && !text.contains("77"), "{text}");
    }
}

#[tokio::test]
async fn debug_shows_no_attribute_of_an_item() {
    let (_db, client) = started(1).await;
    let create = versioned::create(TABLE, key("a")).attribute("balance", text("secret"));
    let mut texts = vec![format!("{create:?}")];
    let written = create.send(&client).await.unwrap();
    let update = versioned::update(TABLE, key("a"), written.version());
    let update = update
        .expression("SET balance = :n")
        .value(":n", text("secret"));
    texts.push(format!("{update:?} {:?}", update.clone().prepare()));
    texts.push(format!(
        "{:?}",
        update.clone().return_item().send(&client).await
    ));
    texts.push(format!("{:?}", update.clone().send(&client).await));
    let refused = versioned::delete(TABLE, key("a"), &Version::from_number(2));
    let refused = refused.condition("attribute_not_exists(balance)");
    texts.push(format!(
        "{:?} {:?}",
        refused.clone(),
        refused.send(&client).await
    ));
    for text in texts {
        assert!(!text.contains("secret"), "{text}");
    }
}

// Items and attributes of other programs, and what is refused before it is sent.

#[tokio::test]
async fn an_item_of_another_program_becomes_a_versioned_one() {
    let (db, client) = started(1).await;
    let put = client.put_item().table_name(TABLE).item("id", text("a"));
    put.item("balance", number(100)).send().await.unwrap();
    let item = stored(&db, "a").await.unwrap();
    assert_eq!(Version::of(&item), Ok(Version::NONE));
    let written = debit(&Version::NONE, 1).send(&client).await.unwrap();
    assert_eq!(written.version().number(), 1);
    assert_eq!(
        conflict(debit(&Version::NONE, 1).send(&client).await).version(),
        Some(written.version())
    );
    let absent = versioned::update(TABLE, key("b"), &Version::NONE).expression("SET x = :x");
    let absent = absent.value(":x", number(1)).send(&client).await;
    assert!(conflict(absent).current().is_none());

    // A number alone, which another program raised.
    let raise = client.update_item().table_name(TABLE).key("id", text("a"));
    let raise = raise
        .update_expression("SET version = :v")
        .expression_attribute_values(":v", number(7));
    raise.send().await.unwrap();
    let written = debit(&Version::from_number(7), 1)
        .send(&client)
        .await
        .unwrap();
    assert_eq!(written.version().number(), 8);
    let written = debit(written.version(), 1).send(&client).await.unwrap();
    assert_eq!((written.version().number(), balance(&db).await), (9, 97));
    let odd = Item::from([("version".to_owned(), text("7"))]);
    assert!(matches!(Version::of(&odd), Err(InvalidVersion { .. })));
}

#[tokio::test]
async fn an_item_of_another_program_with_version_zero_becomes_a_versioned_one() {
    let (db, client) = started(1).await;
    let put = async || {
        let put = client.put_item().table_name(TABLE).item("id", text("a"));
        let put = put.item("balance", number(100)).item("version", number(0));
        put.send().await.unwrap();
    };
    put().await;
    let read = Version::of(&stored(&db, "a").await.unwrap()).unwrap();
    let written = debit(&read, 1).send(&client).await.unwrap();
    assert_eq!((written.version().number(), balance(&db).await), (1, 99));
    // Version 0 is gone.
    assert!(!conflict(debit(&read, 1).send(&client).await).maybe_applied());
    put().await;
    let delete = versioned::delete(TABLE, key("a"), &read);
    delete.send(&client).await.unwrap();
    assert!(stored(&db, "a").await.is_none());
}

#[tokio::test]
async fn a_key_with_an_attribute_of_ours_is_refused_before_it_is_sent() {
    let (db, client) = started(1).await;
    let key = || [("id", text("a")), ("version", number(7))];
    let one = Version::from_number(1);
    for refused in [
        versioned::create(TABLE, key()).send(&client).await,
        versioned::update(TABLE, key(), &one)
            .expression("REMOVE hold")
            .send(&client)
            .await,
        versioned::delete(TABLE, key(), &one).send(&client).await,
    ] {
        let error = refused.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("the key has the attribute `version`"),
            "{error}"
        );
    }
    assert!(db.requests().is_empty());
}

#[tokio::test]
async fn the_version_attribute_can_have_another_name() {
    let (db, client) = started(1).await;
    let items = Versioned::by("rev");
    let made = items
        .create(TABLE, key("a"))
        .attribute("version", text("mine"));
    let made = made.send(&client).await.unwrap();
    let update = items.update(TABLE, key("a"), made.version());
    let update = update
        .expression("SET version = :mine")
        .value(":mine", text("still"));
    let written = update.send(&client).await.unwrap();
    let item = stored(&db, "a").await.unwrap();
    assert_eq!(items.version(&item).as_ref(), Ok(written.version()));
    assert_eq!(item["version"], text("still"));
    items
        .delete(TABLE, key("a"), written.version())
        .send(&client)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_would_break_the_version_is_refused_before_it_is_sent() {
    let (db, client) = started(1).await;
    let one = Version::from_number(1);
    let refused = [
        versioned::create(TABLE, key("a"))
            .attribute("version", number(9))
            .send(&client)
            .await,
        versioned::create(TABLE, key("a"))
            .attribute("id", text("b"))
            .send(&client)
            .await,
        debit(&one, 1)
            .expression("SET version = :n")
            .send(&client)
            .await,
        debit(&one, 1)
            .expression("REMOVE version_w1")
            .send(&client)
            .await,
        debit(&one, 1)
            .condition("balance >= :n) OR (balance < :n")
            .send(&client)
            .await,
        debit(&Version::from_number(u64::MAX), 1)
            .send(&client)
            .await,
    ];
    for result in refused {
        assert!(
            matches!(result, Err(VersionedError::Invalid(_))),
            "{result:?}"
        );
    }
    assert!(db.requests().is_empty());
}
