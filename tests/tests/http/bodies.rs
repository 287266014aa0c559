//! Binary bodies, byte for byte.

use crate::functions::BINARY;
use crate::harness::{FUNCTIONS, Harness};
use crate::source::Request;

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
