//! What `init`, and so `run`, finds before the first event.
#![allow(clippy::unwrap_used)]

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
async fn two_functions_with_one_default_prefix_stop_the_start_and_every_call_and_both_are_named() {
    let at_start = idempotency_lambda::init().await.unwrap_err();
    assert_eq!(at_start.kind(), ErrorKind::Configuration);
    let text = at_start.to_string();
    assert!(text.matches("start.rs:").count() >= 2, "{text}");
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

#[idempotent(payload = order, key_prefix = "set", expires_after = "1h")]
async fn sets_the_value_itself(order: u32) -> Result<u32, BoxError> {
    Ok(order)
}

/// Runs the test of this name once more, in a process with these variables, and returns what it wrote.
fn again_with<const N: usize>(test: &str, variables: [(&str, &str); N]) -> String {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .envs(variables)
        .output()
        .unwrap();
    let written = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{written}");
    written
}

#[tokio::test]
async fn an_unusable_variable_stops_the_start_and_every_call_though_the_attribute_sets_the_value() {
    if std::env::var_os("IDEMPOTENCY_EXPIRES_AFTER").is_none() {
        let written = again_with(
            "an_unusable_variable_stops_the_start_and_every_call_though_the_attribute_sets_the_value",
            [
                ("IDEMPOTENCY_EXPIRES_AFTER", "1x"),
                ("IDEMPOTENT_LEASE", "1m"),
            ],
        );
        let noticed =
            "IDEMPOTENT_LEASE is set but nothing reads it: did you mean IDEMPOTENCY_LEASE?";
        assert_eq!(written.matches(noticed).count(), 1, "{written}");
        return;
    }
    // First a call, as under plain `lambda_runtime::run`.
    let call = sets_the_value_itself(1).await.unwrap_err().to_string();
    let start = idempotency_lambda::init().await.unwrap_err().to_string();
    let built = idempotency_lambda::Operation::builder("shop::built").build();
    for error in [call, start, built.unwrap_err().to_string()] {
        assert!(
            error.contains("IDEMPOTENCY_EXPIRES_AFTER is `1x`"),
            "{error}"
        );
    }
}
