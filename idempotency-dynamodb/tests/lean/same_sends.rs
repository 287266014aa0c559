//! Both clients repeat the same sends, and end with the same errors.

use std::error::Error;

use aws_config::retry::RetryConfig;
use aws_sdk_dynamodb::config::Credentials;
use idempotency_core::example::StoreExt;
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::StoreReply;

use super::recorder::{Kind, Recorder, Reply};

fn credentials() -> Credentials {
    Credentials::new("access", "secret", Some("t0ken".to_owned()), None, "test")
}

/// Returns how a claim with these replies ends, and the dates of its sends.
async fn claimed(kind: Kind, replies: Vec<Reply>) -> (String, Vec<String>) {
    let recorder = Recorder::replying(replies);
    // Pauses take real time here, so they are short.
    let retries = RetryConfig::standard()
        .with_max_attempts(3)
        .with_initial_backoff(std::time::Duration::from_millis(1));
    let config = recorder.config(credentials()).retry_config(retries);
    let config = config.sleep_impl(aws_sdk_dynamodb::config::SharedAsyncSleep::new(Sleeps));
    let store = kind.store(&config.build(), "payments").build().unwrap();
    let id = RecordId::new("charge#1");
    let write = store
        .put(&id, &Record::default(), &Condition::NoRecord)
        .await;
    let end = match write {
        StoreReply::Failed {
            maybe_applied,
            error,
        } => {
            let mut texts = String::new();
            let mut source = error.source();
            while let Some(cause) = source {
                texts.push_str(&format!("{cause} {cause:?}"));
                source = cause.source();
            }
            assert!(
                !texts.contains("t0ken") && !texts.contains("s3cr3t"),
                "{texts}"
            );
            format!("{maybe_applied} {:?} {error}", error.kind())
        }
        other => format!("{other:?}"),
    };
    let sent = recorder.take();
    let dates = sent.iter().map(|sent| sent.header("x-amz-date").to_owned());
    (end, dates.collect())
}

#[derive(Debug)]
struct Sleeps;

impl aws_sdk_dynamodb::config::AsyncSleep for Sleeps {
    fn sleep(&self, duration: std::time::Duration) -> aws_sdk_dynamodb::config::Sleep {
        aws_sdk_dynamodb::config::Sleep::new(tokio::time::sleep(duration))
    }
}

/// Returns a reply with an error code.
fn error(status: u16, body: &'static str) -> Reply {
    (status, Vec::new(), body)
}

#[tokio::test]
async fn every_error_response_is_repeated_as_often_and_ends_alike() {
    for reply in [
        error(400, r#"{"__type":"a#ThrottlingException","message":"s"}"#),
        error(
            400,
            r#"{"__type":"a#ReplicatedWriteConflictException","message":"s"}"#,
        ),
        error(
            400,
            r#"{"__type":"a#TransactionConflictException","message":"s"}"#,
        ),
        error(
            400,
            r#"{"__type":"a#ConditionalCheckFailedException","message":"s"}"#,
        ),
        error(
            400,
            r#"{"__type":"a#ConditionalCheckFailedException","Item":{"status":{"S":"COMPLETED"},"data":{"M":{"a":{"N":"1"}}}}}"#,
        ),
        error(
            400,
            r#"{"__type":"a#ConditionalCheckFailedException","Item":{"s3cr3t":7}}"#,
        ),
        error(
            400,
            r#"{"__type":"a#ValidationException","message":"Item size has exceeded the maximum allowed size"}"#,
        ),
        error(400, r#"{"__type":"ResourceNotFoundException"}"#),
        error(400, r#"{"code":"AccessDeniedException","Message":"no"}"#),
        error(
            403,
            r#"{"__type":"a#UnrecognizedClientException","message":"no"}"#,
        ),
        error(408, r#"{"__type":"RequestTimeoutException"}"#),
        error(400, "{}"),
        error(400, ""),
        error(400, "<html>s3cr3t"),
        error(404, "{\"message\":7}"),
        error(413, r#"{"__type":"RequestEntityTooLarge"}"#),
        error(429, r#"{"message":"s"}"#),
        error(500, r#"{"__type":"a#InternalServerError","message":"s"}"#),
        error(500, "s3cr3t"),
        error(501, "{}"),
        error(502, "<html>"),
        error(503, r#"{"__type":"a#ServiceUnavailable"}"#),
        error(504, ""),
        error(200, "s3cr3t"),
        error(200, ""),
        error(200, r#"{"Attributes":{"status":{"S":"INPROGRESS"}}}"#),
        error(200, r#"{"Attributes":{"s3cr3t":7}}"#),
        error(204, ""),
        error(301, ""),
        (
            400,
            vec![("x-amzn-errortype", "ThrottlingException:http://a")],
            "{}",
        ),
        (
            400,
            vec![("x-amzn-errortype", "a#AccessDenied")],
            r#"{"__type":"other"}"#,
        ),
    ] {
        let [sdk, lean] = Kind::ALL.map(|kind| claimed(kind, vec![reply.clone(); 3]));
        let (sdk, lean) = (sdk.await, lean.await);
        assert_eq!(lean.0, sdk.0, "{reply:?}");
        assert_eq!(lean.1.len(), sdk.1.len(), "{reply:?}: {}", sdk.0);
    }
}

#[tokio::test]
async fn every_status_without_an_error_code_is_repeated_as_often_and_ends_alike() {
    for status in 300..600 {
        let [sdk, lean] = Kind::ALL.map(|kind| claimed(kind, vec![error(status, "{}"); 3]));
        let (sdk, lean) = (sdk.await, lean.await);
        assert_eq!(lean.0, sdk.0, "{status}");
        assert_eq!(lean.1.len(), sdk.1.len(), "{status}: {}", sdk.0);
        // A proxy can have written it, after DynamoDB applied the write.
        assert!(sdk.0.starts_with("true "), "{status}: {}", sdk.0);
    }
}

#[tokio::test]
async fn a_send_refused_for_a_wrong_clock_is_repeated_with_the_clock_of_dynamodb() {
    let refused = (
        400,
        vec![("date", "Sun, 22 Nov 2020 07:06:58 GMT")],
        r#"{"__type":"a#InvalidSignatureException","message":"Signature expired"}"#,
    );
    for kind in Kind::ALL {
        let (end, dates) = claimed(kind, vec![refused.clone()]).await;
        assert!(end.starts_with("Applied "), "{end}");
        assert!(end.ends_with("maybe_again: false }"), "{end}");
        assert_eq!(dates.len(), 2);
        assert!(!dates[0].starts_with("20201122T07"), "{dates:?}");
        assert!(dates[1].starts_with("20201122T07"), "{dates:?}");
    }
}

#[tokio::test]
async fn a_claim_that_is_applied_after_a_failed_send_may_be_applied_again() {
    for kind in Kind::ALL {
        let (end, sends) = claimed(kind, vec![error(500, "{}")]).await;
        assert!(end.starts_with("Applied "), "{end}");
        assert!(end.ends_with("maybe_again: true }"), "{end}");
        assert_eq!(sends.len(), 2);
    }
}

#[tokio::test]
async fn a_refused_signature_with_the_right_clock_is_not_repeated() {
    let body = r#"{"__type":"a#InvalidSignatureException","message":"no"}"#;
    for kind in Kind::ALL {
        let (end, dates) = claimed(kind, vec![error(400, body)]).await;
        assert!(end.starts_with("false Credentials "), "{end}");
        assert_eq!(dates.len(), 1);
    }
}
