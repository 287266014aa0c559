//! The embedded DynamoDB, used through the real SDK: its faults, and the behaviour that a protocol of conditional writes depends on.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};
use std::time::{Duration, Instant, SystemTime};

/// Returns the item of a failed condition.
macro_rules! failed_with {
    ($result:expr, $error:ident) => {
        match $result.unwrap_err().into_service_error() {
            $error::ConditionalCheckFailedException(error) => error.item.unwrap(),
            other => panic!("{other}"),
        }
    };
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

async fn orders() -> EmbeddedDynamoDb {
    let db = EmbeddedDynamoDb::start().await.unwrap();
    db.create_table(TableSpec::new("orders")).await.unwrap();
    db
}

fn without_retries(db: &EmbeddedDynamoDb) -> Client {
    let config = Builder::from(&db.sdk_config()).retry_config(RetryConfig::disabled());
    Client::from_conf(config.build())
}

fn claim(client: &Client, owner: &str) -> PutItemFluentBuilder {
    client
        .put_item()
        .table_name("orders")
        .item("id", text("o-1"))
        .item("owner", text(owner))
        .condition_expression("attribute_not_exists(id)")
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

async fn owner(db: &EmbeddedDynamoDb) -> Option<AttributeValue> {
    let item = db.item("orders", [("id", "o-1")]).await.unwrap();
    item.map(|item| item["owner"].clone())
}

/// Returns a put of the order that needs more attributes or conditions.
fn put(client: &Client) -> PutItemFluentBuilder {
    let put = client.put_item().table_name("orders");
    put.item("id", text("o-1"))
}

/// Returns an update of the order that needs an expression.
fn update(client: &Client) -> UpdateItemFluentBuilder {
    let update = client.update_item().table_name("orders");
    update.key("id", text("o-1"))
}

fn attempts(db: &EmbeddedDynamoDb) -> Vec<(Option<u32>, Option<u16>)> {
    db.requests()
        .iter()
        .map(|request| (request.attempt, request.status))
        .collect()
}

#[tokio::test]
async fn a_failed_condition_returns_the_item() {
    let db = orders().await;
    claim(&db.client(), "first").send().await.unwrap();
    let old = ReturnValuesOnConditionCheckFailure::AllOld;
    let put = claim(&db.client(), "second").send().await;
    assert_eq!(failed_with!(put, PutItemError)["owner"], text("first"));

    let update = update(&db.client())
        .update_expression("SET answer = :a")
        .condition_expression("#o = :me")
        .expression_attribute_names("#o", "owner")
        .expression_attribute_values(":a", text("x"))
        .expression_attribute_values(":me", text("second"))
        .return_values_on_condition_check_failure(old.clone());
    let found = failed_with!(update.send().await, UpdateItemError);
    assert_eq!(found["owner"], text("first"));

    let delete = db.client().delete_item().table_name("orders");
    let delete = delete
        .key("id", text("o-1"))
        .condition_expression("#o = :me")
        .expression_attribute_names("#o", "owner")
        .expression_attribute_values(":me", text("second"))
        .return_values_on_condition_check_failure(old);
    let found = failed_with!(delete.send().await, DeleteItemError);
    assert_eq!(found["owner"], text("first"));
    assert_eq!(owner(&db).await, Some(text("first")));
}

#[tokio::test]
async fn of_many_concurrent_claims_one_is_applied() {
    let db = orders().await;
    let client = db.client();
    let claims: Vec<_> = (0..20)
        .map(|n| tokio::spawn(claim(&client, &n.to_string()).send()))
        .collect();
    let mut granted = 0;
    for claim in claims {
        granted += usize::from(claim.await.unwrap().is_ok());
    }
    assert_eq!(granted, 1);
}

#[tokio::test]
async fn an_update_that_makes_an_item_too_large_changes_nothing() {
    let db = orders().await;
    claim(&db.client(), "first").send().await.unwrap();
    let update = update(&db.client())
        .update_expression("SET answer = :a")
        .expression_attribute_values(":a", text(&"x".repeat(400 * 1024)));
    let error = update.send().await.unwrap_err();
    assert_eq!(error.code(), Some("ValidationException"));
    let item = db.item("orders", [("id", "o-1")]).await.unwrap().unwrap();
    assert!(!item.contains_key("answer"));
}

#[tokio::test]
async fn requests_have_operation_table_key_and_body_and_can_be_cleared() {
    let db = orders().await;
    claim(&db.client(), "me").send().await.unwrap();
    let requests = db.requests();
    let [request] = requests.as_slice() else {
        panic!("helpers were counted: {requests:?}");
    };
    assert_eq!(request.operation, "PutItem");
    assert_eq!(request.table.as_deref(), Some("orders"));
    assert_eq!(request.key("id"), Some("o-1"));
    assert_eq!(
        request.body["ConditionExpression"],
        "attribute_not_exists(id)"
    );
    assert!(!format!("{request:?}").contains("o-1"));
    db.clear_requests();
    assert!(db.requests().is_empty());
}

#[tokio::test]
async fn a_composite_key_needs_both_of_its_parts() {
    let db = EmbeddedDynamoDb::start().await.unwrap();
    let table = TableSpec::new("shared").partition_key("pk");
    db.create_table(table.with_sort_key("sk")).await.unwrap();
    for number in ["1", "2"] {
        let item = [("pk", text("p")), ("sk", text(number))];
        db.put("shared", item).await.unwrap();
    }
    assert_eq!(db.items("shared").await.unwrap().len(), 2);
    let first = [("pk", "p"), ("sk", "1")];
    db.delete("shared", first).await.unwrap();
    assert!(db.item("shared", first).await.unwrap().is_none());
    let error = db.item("shared", [("pk", "p")]).await.unwrap_err();
    let (text, start) = (error.to_string(), "GetItem on table `shared` failed: ");
    assert!(text.starts_with(start), "{text}");
}

#[test]
fn one_database_serves_several_runtimes() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let db = runtime().block_on(orders());
    for n in 0..3 {
        runtime().block_on(async {
            let item = [("id", text(&n.to_string()))];
            db.put("orders", item).await.unwrap();
            db.client().list_tables().send().await.unwrap();
        });
    }
    assert_eq!(runtime().block_on(db.items("orders")).unwrap().len(), 3);
}

#[tokio::test]
async fn a_dropped_database_closes_its_port() {
    let db = orders().await;
    let address = db.endpoint().trim_start_matches("http://").to_owned();
    let held = db.inject(Fault::on("PutItem").hold());
    let sent = tokio::spawn(claim(&without_retries(&db), "me").send());
    held.reached().await;
    drop(db);
    assert!(sent.await.unwrap().is_err());
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn after_a_lost_reply_the_sdk_finds_its_own_write() {
    let db = orders().await;
    db.inject(Fault::on("PutItem").drop_reply());
    let put = claim(&db.client(), "me").send().await;
    assert_eq!(failed_with!(put, PutItemError)["owner"], text("me"));
    assert_eq!(attempts(&db), [(Some(1), Some(200)), (Some(2), Some(400))]);
    let requests = db.requests();
    assert!(requests[0].at <= requests[1].at);
}

#[tokio::test]
async fn a_lost_request_is_not_applied_and_the_sdk_sends_it_again() {
    let db = orders().await;
    let lost = db.inject(Fault::on("PutItem").drop_request());
    claim(&db.client(), "me").send().await.unwrap();
    assert_eq!(attempts(&db), [(Some(1), None), (Some(2), Some(200))]);
    assert_eq!(lost.applied_count(), 1);
}

#[tokio::test]
async fn a_lost_request_without_retries_is_an_error_that_may_have_been_applied() {
    let db = orders().await;
    db.inject(Fault::on("PutItem").drop_request());
    let error = claim(&without_retries(&db), "me").send().await.unwrap_err();
    assert!(error.as_service_error().is_none());
    assert_eq!(owner(&db).await, None);
}

#[tokio::test]
async fn throttling_and_internal_errors_are_retried_and_not_applied() {
    let db = orders().await;
    db.inject(Fault::on("PutItem").throttle());
    let second = Fault::on("PutItem").nth(2);
    db.inject(second.respond_with(500, "InternalServerError"));
    claim(&db.client(), "me").send().await.unwrap();
    let third = (Some(3), Some(200));
    assert_eq!(attempts(&db), [(Some(1), None), (Some(2), None), third]);

    let client = without_retries(&db);
    let get = client.get_item().table_name("orders");
    let get = get.key("id", text("o-1"));
    db.inject(Fault::on("GetItem").throttle());
    let error = get.clone().send().await.unwrap_err().into_service_error();
    assert!(error.is_provisioned_throughput_exceeded_exception());
    db.inject(Fault::on("GetItem").respond_with(500, "InternalServerError"));
    let error = get.send().await.unwrap_err().into_service_error();
    assert!(error.is_internal_server_error());
}

#[tokio::test]
async fn denied_access_is_not_retried() {
    let db = orders().await;
    let always = Fault::on("PutItem").always();
    db.inject(always.respond_with(400, "AccessDeniedException"));
    let error = claim(&db.client(), "me").send().await.unwrap_err();
    assert_eq!(error.code(), Some("AccessDeniedException"));
    assert_eq!(attempts(&db), [(Some(1), None)]);
    db.clear_faults();
    claim(&db.client(), "me").send().await.unwrap();
}

#[tokio::test]
async fn a_held_request_is_applied_when_it_is_released() {
    let db = orders().await;
    let held = db.inject(Fault::on("PutItem").hold());
    let sent = tokio::spawn(claim(&db.client(), "me").send());
    held.reached().await;
    assert_eq!(owner(&db).await, None);
    held.release().await;
    assert_eq!(owner(&db).await, Some(text("me")));
    sent.await.unwrap().unwrap();
    assert_eq!(attempts(&db), [(Some(1), Some(200))]);
}

#[tokio::test]
async fn of_two_held_claims_one_is_applied() {
    let db = orders().await;
    let held = db.inject(Fault::on("PutItem").times(2).hold());
    let client = db.client();
    let one = tokio::spawn(claim(&client, "one").send());
    let two = tokio::spawn(claim(&client, "two").send());
    while held.applied_count() < 2 {
        tokio::task::yield_now().await;
    }
    held.release().await;
    assert_ne!(one.await.unwrap().is_ok(), two.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_held_request_outlives_the_client_that_sent_it() {
    let db = orders().await;
    let held = db.inject(Fault::on("PutItem").hold());
    let sent = tokio::spawn(claim(&db.client(), "me").send());
    held.reached().await;
    sent.abort();
    assert!(sent.await.unwrap_err().is_cancelled());
    held.release().await;
    assert_eq!(owner(&db).await, Some(text("me")));
}

#[tokio::test]
async fn a_held_reply_leaves_the_write_applied() {
    let db = orders().await;
    let held = db.inject(Fault::on("PutItem").hold_reply());
    let sent = tokio::spawn(claim(&db.client(), "me").send());
    held.reached().await;
    assert_eq!(owner(&db).await, Some(text("me")));
    assert!(!sent.is_finished());
    held.release().await;
    sent.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_late_arrival_is_an_error_now_and_a_write_later() {
    let db = orders().await;
    let late = db.inject(Fault::on("PutItem").late_arrival());
    let put = put(&without_retries(&db)).item("owner", text("late"));
    assert!(put.send().await.unwrap_err().as_service_error().is_none());
    assert_eq!(owner(&db).await, None);
    claim(&db.client(), "other").send().await.unwrap();
    late.release().await;
    assert_eq!(owner(&db).await, Some(text("late")));
    assert_eq!(db.requests()[0].status, Some(200));
}

#[tokio::test]
async fn an_internal_error_can_hide_a_write_that_was_applied() {
    let db = orders().await;
    db.inject(Fault::on("PutItem").internal_error_although_applied());
    let error = claim(&without_retries(&db), "me").send().await.unwrap_err();
    assert_eq!(error.code(), Some("InternalServerError"));
    assert_eq!(owner(&db).await, Some(text("me")));
}

#[tokio::test]
async fn a_request_that_arrives_after_a_time_is_an_error_now_and_a_write_later() {
    let db = orders().await;
    let delay = Duration::from_millis(50);
    let late = db.inject(Fault::on("PutItem").release_after(delay).late_arrival());
    let sent = claim(&without_retries(&db), "late").send().await;
    assert!(sent.unwrap_err().as_service_error().is_none());
    late.reached().await;
    while owner(&db).await.is_none() {}
    assert_eq!(owner(&db).await, Some(text("late")));
    // The item is in the table before the response is noted.
    while db.requests()[0].responded_at.is_none() {
        tokio::task::yield_now().await;
    }
    let request = &db.requests()[0];
    let took = request.responded_at.unwrap().duration_since(request.at);
    assert!(took.unwrap() >= delay);
}

#[tokio::test]
async fn a_delayed_request_is_applied_late_and_a_delayed_reply_arrives_late() {
    let db = orders().await;
    let delay = Duration::from_millis(50);
    let held = Fault::on("ListTables").release_after(delay);
    for (fault, applied_late) in [(held.clone().hold(), true), (held.hold_reply(), false)] {
        db.clear_requests();
        db.inject(fault);
        let began = Instant::now();
        db.client().list_tables().send().await.unwrap();
        assert!(began.elapsed() >= delay);
        let request = &db.requests()[0];
        let responded = request.responded_at.unwrap();
        // A held request waits before it is applied, a held reply after that.
        let waited = match applied_late {
            true => responded.duration_since(request.at),
            false => SystemTime::now().duration_since(responded),
        };
        assert!(waited.unwrap() >= delay);
    }
}

#[tokio::test]
async fn a_chosen_fault_applies_to_other_requests_than_injected_ones_until_all_are_cleared() {
    let db = orders().await;
    db.inject_chosen(|request| {
        (request.key("id") == Some("o-1")).then(|| Fault::on_any().throttle())
    });
    let client = without_retries(&db);
    let denied = db.inject(Fault::on("PutItem").respond_with(400, "AccessDeniedException"));
    let mut codes = Vec::new();
    for _ in 0..2 {
        let error = claim(&client, "me").send().await.unwrap_err();
        codes.push(error.code().map(str::to_owned));
    }
    assert_eq!(denied.applied_count(), 1);
    let throttled = "ProvisionedThroughputExceededException";
    let expected = ["AccessDeniedException", throttled];
    assert_eq!(codes, expected.map(|code| Some(code.to_owned())));
    client.list_tables().send().await.unwrap();
    db.clear_faults();
    claim(&client, "me").send().await.unwrap();
}

#[tokio::test]
async fn a_fault_applies_only_to_the_selected_requests() {
    let db = orders().await;
    db.create_table(TableSpec::new("other")).await.unwrap();
    let two = Fault::on("PutItem").table("other").nth(2).times(2);
    let fault = db.inject(two.drop_request());
    let client = without_retries(&db);
    let mut failed = Vec::new();
    for table in ["orders", "other", "orders", "other", "other", "other"] {
        let put = put(&client).table_name(table).send();
        failed.push(put.await.is_err());
    }
    assert_eq!(failed, [false, false, false, true, true, false]);
    assert_eq!(fault.applied_count(), 2);
}

#[tokio::test]
async fn only_not_equal_holds_for_a_missing_attribute() {
    let db = orders().await;
    db.put("orders", [("id", text("o-1"))]).await.unwrap();
    for operator in ["<>", "=", "<", ">", ">="] {
        let holds = operator == "<>";
        let put = put(&db.client());
        let put = put
            .condition_expression(format!("nickname {operator} :v"))
            .expression_attribute_values(":v", text("x"));
        assert_eq!(put.send().await.is_ok(), holds, "nickname {operator} :v");
    }
}

#[tokio::test]
async fn a_comparison_of_two_types_never_holds() {
    let db = orders().await;
    let item = [("id", text("o-1")), ("expiration", text("1"))];
    db.put("orders", item).await.unwrap();
    for operator in ["=", "<", ">"] {
        let put = put(&db.client())
            .condition_expression(format!("expiration {operator} :v"))
            .expression_attribute_values(":v", AttributeValue::N("1".to_owned()));
        let error = put.send().await.unwrap_err();
        let code = error.code().unwrap_or_default().to_owned();
        assert_eq!(code, "ConditionalCheckFailedException", "{operator}");
    }
}

#[tokio::test]
async fn expressions_that_dynamodb_rejects_are_rejected() {
    let db = orders().await;
    let put = || put(&db.client()).expression_attribute_values(":v", text("x"));
    for put in [
        put().condition_expression("status = :v"),
        put().condition_expression("attribute_not_exists(id)"),
        put().condition_expression("id = :v AND id = :w"),
        put()
            .condition_expression("id = :v")
            .expression_attribute_names("#unused", "x"),
    ] {
        let error = put.clone().send().await.unwrap_err();
        let condition = put.get_condition_expression();
        assert_eq!(error.code(), Some("ValidationException"), "{condition:?}");
    }
}

#[tokio::test]
async fn consumed_capacity_depends_on_the_size_of_the_item() {
    let db = orders().await;
    for (size, units) in [(10, 1.0), (1025, 2.0), (5000, 5.0)] {
        let put = put(&db.client())
            .item("data", text(&"x".repeat(size)))
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let capacity = put.send().await.unwrap().consumed_capacity.unwrap();
        assert_eq!(capacity.capacity_units(), Some(units), "{size}");
    }
}

#[tokio::test]
async fn an_item_has_at_most_400_kb_attribute_names_included() {
    let db = orders().await;
    let names_and_key = "id".len() + "o-1".len() + "data".len();
    let largest = 400 * 1024 - names_and_key;
    let put = |size| put(&db.client()).item("data", text(&"x".repeat(size)));
    put(largest).send().await.unwrap();
    let error = put(largest + 1).send().await.unwrap_err();
    assert_eq!(error.code(), Some("ValidationException"));
}

#[tokio::test]
async fn the_ttl_attribute_is_set_and_expired_items_stay() {
    let db = orders().await;
    let ttl = db.client().describe_time_to_live().table_name("orders");
    let ttl = ttl.send().await.unwrap().time_to_live_description.unwrap();
    assert_eq!(ttl.attribute_name(), Some("expiration"));
    let expired = AttributeValue::N("1".to_owned());
    let item = [("id", text("o-1")), ("expiration", expired)];
    db.put("orders", item).await.unwrap();
    assert_eq!(db.items("orders").await.unwrap().len(), 1);
}
