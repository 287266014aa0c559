//! Injected faults: lost, late, held and delayed requests and replies, and error responses.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use idempotency_testkit::dynamodb::Fault;

use super::*;

#[tokio::test]
async fn after_a_lost_reply_the_sdk_finds_its_own_write() {
    let db = orders().await;
    db.inject(Fault::on("PutItem").drop_reply());
    let put = claim(&db.client(), "me").send().await;
    assert_eq!(failed_with!(put, PutItemError)["owner"], text("me"));
    assert_eq!(attempts(&db), [(Some(1), Some(200)), (Some(2), Some(400))]);
    let requests = db.requests();
    assert_eq!(requests[0].call, requests[1].call);
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
    let error = claim(&once(&db), "me").send().await.unwrap_err();
    assert!(error.as_service_error().is_none());
    assert_eq!(owner(&db).await, None);
}

#[tokio::test]
async fn throttling_and_internal_errors_are_retried_and_not_applied() {
    let db = orders().await;
    db.inject(Fault::on("PutItem").throttle());
    db.inject(Fault::on("PutItem").nth(2).internal_error());
    claim(&db.client(), "me").send().await.unwrap();
    assert_eq!(
        attempts(&db),
        [(Some(1), None), (Some(2), None), (Some(3), Some(200))]
    );

    db.inject(Fault::on("GetItem").throttle());
    let get = once(&db)
        .get_item()
        .table_name("orders")
        .key("id", text("o-1"));
    let error = get.send().await.unwrap_err().into_service_error();
    assert!(error.is_provisioned_throughput_exceeded_exception());
    db.inject(Fault::on("GetItem").internal_error());
    let get = once(&db)
        .get_item()
        .table_name("orders")
        .key("id", text("o-1"));
    assert!(
        get.send()
            .await
            .unwrap_err()
            .into_service_error()
            .is_internal_server_error()
    );
}

#[tokio::test]
async fn denied_access_is_not_retried() {
    let db = orders().await;
    db.inject(Fault::on("PutItem").always().access_denied());
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
    held.reached_times(2).await;
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
    let put = once(&db).put_item().table_name("orders");
    let put = put.item("id", text("o-1")).item("owner", text("late"));
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
    let error = claim(&once(&db), "me").send().await.unwrap_err();
    assert_eq!(error.code(), Some("InternalServerError"));
    assert_eq!(owner(&db).await, Some(text("me")));
}

#[tokio::test]
async fn a_request_that_arrives_after_a_time_is_an_error_now_and_a_write_later() {
    let db = orders().await;
    let delay = Duration::from_millis(50);
    let late = db.inject(Fault::on("PutItem").arrive_after(delay));
    let sent = claim(&once(&db), "late").send().await;
    assert!(sent.unwrap_err().as_service_error().is_none());
    late.release().await;
    assert_eq!(owner(&db).await, Some(text("late")));
    let request = &db.requests()[0];
    let took = request.responded_at.unwrap().duration_since(request.at);
    assert!(took.unwrap() >= delay);
}

#[tokio::test]
async fn a_delayed_request_is_applied_late_and_a_delayed_reply_arrives_late() {
    let db = orders().await;
    let delay = Duration::from_millis(50);
    for (fault, applied_late) in [
        (Fault::on("ListTables").delay(delay), true),
        (Fault::on("ListTables").delay_reply(delay), false),
    ] {
        db.clear_requests();
        db.inject(fault);
        let began = Instant::now();
        db.client().list_tables().send().await.unwrap();
        assert!(began.elapsed() >= delay);
        let request = &db.requests()[0];
        let took = request.responded_at.unwrap().duration_since(request.at);
        if applied_late {
            assert!(took.unwrap() >= delay);
        }
    }
}

#[tokio::test]
async fn a_chosen_fault_applies_to_other_requests_than_injected_ones_until_all_are_cleared() {
    let db = orders().await;
    db.inject_chosen(|request| {
        (request.key("id") == Some("o-1")).then(|| Fault::on_any().throttle())
    });
    let client = once(&db);
    let denied = db.inject(Fault::on("PutItem").access_denied());
    let mut codes = Vec::new();
    for _ in 0..2 {
        let error = claim(&client, "me").send().await.unwrap_err();
        codes.push(error.code().map(str::to_owned));
    }
    assert_eq!(denied.applied_count(), 1);
    let throttled = "ProvisionedThroughputExceededException";
    assert_eq!(
        codes,
        ["AccessDeniedException", throttled].map(|code| Some(code.to_owned()))
    );
    client.list_tables().send().await.unwrap();
    db.clear_faults();
    claim(&client, "me").send().await.unwrap();
}

#[tokio::test]
async fn a_fault_applies_only_to_the_selected_requests() {
    let db = orders().await;
    db.create_table(TableSpec::new("other")).await.unwrap();
    let fault = db.inject(
        Fault::on("PutItem")
            .table("other")
            .nth(2)
            .times(2)
            .drop_request(),
    );
    let client = once(&db);
    let put = |table: &str| {
        client
            .put_item()
            .table_name(table)
            .item("id", text("o-1"))
            .send()
    };
    let mut failed = Vec::new();
    for table in ["orders", "other", "orders", "other", "other", "other"] {
        failed.push(put(table).await.is_err());
    }
    assert_eq!(failed, [false, false, false, true, true, false]);
    assert_eq!(fault.applied_count(), 2);
}
