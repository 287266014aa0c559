//! Keys, callers, paths, bodies and responses never reach the log.

use crate::harness::Harness;
use crate::source::{Request, Source};

/// It is a part of everything that a client or the handler writes.
pub(crate) const CANARY: &str = "canary7141";

#[tokio::test]
async fn no_part_of_a_request_or_a_response_is_logged_at_any_level() {
    for role in ["canary", "canary, attribute"] {
        let harness = Harness::start(role).await;
        let request = |key: &str, body: &str| {
            Request::post("/canary7141?q=canary7141", key)
                .of(Some(CANARY))
                .body(body.as_bytes())
        };
        let key = format!("\"{CANARY}\"");
        let body = format!(r#"{{"{CANARY}":"{CANARY}"}}"#);
        let first = request(&key, &body);
        let requests = [
            (200, first.clone()),
            (200, first.clone()),
            (422, request(&key, CANARY)),
            (400, request(&format!("{CANARY};"), &body)),
            (400, request("", &body)),
            (403, first.of(None)),
        ];
        for (status, request) in requests {
            let received = harness.send(Source::ApiGatewayV2, &request).await;
            assert_eq!(received.status, status, "{role} {received:?}");
            let text = String::from_utf8(received.body).unwrap();
            assert_eq!(text.contains(CANARY), status == 200, "{role}");
        }
        harness
            .process
            .wait_for_line("idempotent call")
            .await
            .unwrap();
        let log = harness.process.log();
        let mut lines = log.iter().map(|line| &*line.text);
        assert!(lines.clone().count() > 5, "the log is not empty");
        assert_eq!(lines.find(|line| line.contains(CANARY)), None, "{role}");
    }
}
