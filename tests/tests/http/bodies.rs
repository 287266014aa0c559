//! Binary bodies, byte for byte, and bodies that the table cannot hold.

use crate::functions::{BINARY, LARGEST_BODY};
use crate::harness::{FUNCTIONS, Harness};
use crate::source::{Request, Source};

#[tokio::test]
async fn a_binary_body_is_replayed_byte_for_byte_and_is_a_part_of_the_fingerprint() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        for &source in sources {
            let key = format!("\"{source:?}\"");
            let mut request = Request::post("/binary", &key).body(BINARY);
            request.headers.push(("X-Kind", "png".to_owned()));
            let first = harness.send(source, &request).await;
            assert!(first.body.starts_with(BINARY), "{role} {source:?}");
            assert_eq!(first.header("content-type"), Some("image/png"));
            let replay = harness.send(source, &request).await;
            assert_eq!(replay.header("idempotent-replayed"), Some("true"));
            assert_eq!(replay.body, first.body, "{role} {source:?}");
            assert_eq!(replay.header("content-type"), Some("image/png"));

            let mut bytes = BINARY.to_vec();
            bytes[0] += 1;
            let other = harness.send(source, &request.clone().body(&bytes)).await;
            assert_eq!(other.status, 422, "{role} {source:?}");
        }
    }
}

#[tokio::test]
async fn a_response_that_the_table_cannot_hold_is_never_replayed_and_never_runs_again() {
    for (role, first) in [
        ("large, Complete", 200),
        ("large, Release", 200),
        ("large, Refuse", 500),
    ] {
        let off = [
            ("IDEMPOTENCY_COMPRESS_ABOVE", "off"),
            ("IDEMPOTENCY_LARGE_RESPONSES", "off"),
        ];
        let harness = Harness::start_with(role, &off).await;
        let request = Request::post("/reports", "\"k-1\"");
        for status in [first, 500] {
            let received = harness.send(Source::ApiGatewayV2, &request).await;
            assert_eq!(received.status, status, "{role}");
            if status == 200 {
                assert_eq!(received.body.len(), 410_000);
            } else {
                let kind = &received.json()["type"];
                assert_eq!(kind, "urn:idempotency:response-unavailable", "{role}");
            }
        }
    }
}

#[tokio::test]
async fn a_body_of_nearly_6_mb_is_replayed_byte_for_byte() {
    // Each time limit is longer than any machine needs: what is shown does not depend on its speed.
    let harness = Harness::start_with("largest", &[("IDEMPOTENCY_STORE_TIMEOUT", "5m")]).await;
    let request = Request::post("/reports", "\"k-1\"");
    let first = harness.send(Source::ApiGatewayV2, &request).await;
    assert_eq!((first.status, first.body.len()), (200, LARGEST_BODY));
    assert_eq!(first.header("idempotent-replayed"), None);
    let replay = harness.send(Source::ApiGatewayV2, &request).await;
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert!(replay.body == first.body);
}
