//! Mistakes that `init`, and so `run`, finds before the first event.

use idempotency_lambda::{BoxError, ErrorKind, idempotent};

mod one {
    use super::*;

    pub(super) async fn call() -> Result<u32, BoxError> {
        #[idempotent(payload = order)]
        async fn pay(order: u32) -> Result<u32, BoxError> {
            Ok(order)
        }
        pay(1).await
    }

    pub(super) async fn another() -> Result<u32, BoxError> {
        #[idempotent(payload = order)]
        async fn pay(order: u32) -> Result<u32, BoxError> {
            Ok(order + 1)
        }
        pay(1).await
    }
}

#[tokio::test]
async fn two_functions_with_one_default_prefix_fail_init_and_every_call_and_the_error_names_both() {
    let at_start = idempotency_lambda::init().await.unwrap_err();
    assert_eq!(at_start.kind(), ErrorKind::Configuration);
    let text = at_start.to_string();
    // Of several mistakes the error names one, with both places.
    assert!(text.matches("tests/start/").count() >= 2, "{text}");
    assert!(text.contains("key_prefix"), "{text}");
    for _ in 0..2 {
        for call in [one::call().await, one::another().await] {
            let error = call.unwrap_err();
            assert!(
                error.to_string().contains("share the key prefix"),
                "{error}"
            );
        }
    }
}
