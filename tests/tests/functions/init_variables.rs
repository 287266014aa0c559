//! Mistakes in variables that `init`, and so `run`, finds. No two functions of a program with this test share a prefix by mistake, which
//! would be found first.

use std::ffi::OsStr;

use idempotency_lambda::{BoxError, idempotent};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};

#[idempotent(payload = order, key_prefix = "set", expires_after = "1h")]
async fn sets_the_value_itself(order: u32) -> Result<u32, BoxError> {
    Ok(order)
}

/// Runs the test of this name in a new process with these variables. Returns its standard error.
fn again_with<N: AsRef<OsStr>, V: AsRef<OsStr>>(
    test: &str,
    variables: impl IntoIterator<Item = (N, V)>,
) -> String {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .envs(variables)
        .output()
        .unwrap();
    let written = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "{written}");
    let report = String::from_utf8_lossy(&child.stdout);
    assert!(report.contains("1 passed"), "{report}");
    written
}

#[tokio::test]
async fn an_unusable_variable_fails_init_and_every_call_even_if_the_attribute_sets_the_value() {
    if std::env::var_os("IDEMPOTENCY_EXPIRES_AFTER").is_none() {
        let written = again_with(
            "init_variables::an_unusable_variable_fails_init_and_every_call_even_if_the_attribute_sets_the_value",
            [
                ("IDEMPOTENCY_EXPIRES_AFTER", "1x"),
                ("IDEMPOTENT_LEASE", "1m"),
            ],
        );
        let warning =
            "IDEMPOTENT_LEASE is set but nothing reads it: did you mean IDEMPOTENCY_LEASE?";
        assert_eq!(written.matches(warning).count(), 1, "{written}");
        return;
    }
    // First a call without `init`, as under plain `lambda_runtime::run`.
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

#[tokio::test]
async fn a_start_that_keeps_events_in_a_table_without_encryption_is_refused() {
    if std::env::var_os("IDEMPOTENCY_STORE_EVENT").is_some() {
        let started = idempotency_lambda::init().await;
        match std::env::var("IDEMPOTENCY_TABLE").as_deref() {
            Ok("plain") => {
                let text = started.unwrap_err().to_string();
                let why = "is not encrypted with a key of KMS";
                assert!(text.contains(why), "{text}");
            }
            _ => started.unwrap(),
        }
        return;
    }
    let database = EmbeddedDynamoDb::start().await.unwrap();
    for table in [
        TableSpec::new("plain"),
        TableSpec::new("encrypted").encrypted(),
    ] {
        database.create_table(table).await.unwrap();
    }
    let test = "init_variables::a_start_that_keeps_events_in_a_table_without_encryption_is_refused";
    for table in ["plain", "encrypted"] {
        let more = [
            ("IDEMPOTENCY_TABLE", table),
            ("IDEMPOTENCY_STORE_EVENT", "all"),
        ];
        let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
        again_with(test, database.environment().into_iter().chain(more));
    }
}
