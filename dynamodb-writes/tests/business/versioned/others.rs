//! Items and attributes of other programs, and what is refused before it is sent.

use dynamodb_writes::versioned::{self, InvalidVersion, Version, Versioned, VersionedError};

use super::super::{Item, TABLE, client, database, key, number, stored, text};
use super::{balance, conflict, debit};

#[tokio::test]
async fn an_item_of_another_program_becomes_a_versioned_one() {
    let db = database().await;
    let client = client(&db, 1);
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
    let db = database().await;
    let client = client(&db, 1);
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
    let db = database().await;
    let client = client(&db, 1);
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
    let db = database().await;
    let client = client(&db, 1);
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
    let db = database().await;
    let client = client(&db, 1);
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
