//! Key prefixes that two operations of one program share, by mistake or intentionally. A mistake makes `init` fail, and
//! with it every other test of the program that calls `init`.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use idempotency_core::config::Variables;
use idempotency_core::store::MemoryStore;
use idempotency_lambda::{
    BoxError, ErrorKind, HashAlgorithm, Operation, backend_over, idempotent, with_backend,
};

struct Shop;

impl Shop {
    #[idempotent(payload = order, key_prefix = "prefixes.charge")]
    async fn charge(&self, order: u32) -> Result<String, BoxError> {
        Ok(format!("charged {order}"))
    }

    /// The prefix was copied from the method above.
    #[idempotent(payload = order, key_prefix = "prefixes.charge")]
    async fn ship(&self, order: u32) -> Result<String, BoxError> {
        Ok(format!("shipped {order}"))
    }
}

#[idempotent(payload = order, key_prefix = "prefixes.shared", shared_key_prefix = true)]
async fn over_http(order: u32) -> Result<String, BoxError> {
    Ok(format!("charged {order} over http"))
}

#[idempotent(payload = order, key_prefix = "prefixes.shared", shared_key_prefix = true)]
async fn from_queue(order: u32) -> Result<String, BoxError> {
    Ok(format!("charged {order} from the queue"))
}

#[tokio::test]
async fn a_prefix_copied_from_one_method_to_the_next_is_refused_at_each_call() {
    let backend = backend_over(Arc::new(MemoryStore::new()));
    for _ in 0..2 {
        let calls = [
            with_backend(backend.clone(), Shop.charge(1)).await,
            with_backend(backend.clone(), Shop.ship(1)).await,
            Shop.charge(1).await,
            Shop.ship(1).await,
        ];
        for call in calls {
            let error = call.unwrap_err().to_string();
            for said in [
                "share the key prefix `prefixes.charge`",
                "start::charge at",
                "start::ship at",
                "`shared_key_prefix = true`",
            ] {
                assert!(error.contains(said), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn two_functions_that_both_set_a_shared_prefix_share_records() {
    let backend = backend_over(Arc::new(MemoryStore::new()));
    let first = with_backend(backend.clone(), over_http(1)).await;
    let second = with_backend(backend, from_queue(1)).await;
    assert_eq!(first.unwrap(), "charged 1 over http");
    assert_eq!(second.unwrap(), "charged 1 over http");
}

#[tokio::test]
async fn a_shared_prefix_stops_the_start_before_any_variable_is_read() {
    const UNUSABLE: &str = "IDEMPOTENCY_LEASE";
    if std::env::var_os(UNUSABLE).is_none() {
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_shared_prefix_stops_the_start_before_any_variable_is_read",
            ])
            .env(UNUSABLE, "soon")
            .env("IDEMPOTENCY_STORE", "nothing")
            .output()
            .unwrap();
        assert!(again.status.success(), "{again:?}");
        let output = String::from_utf8_lossy(&again.stdout);
        assert!(output.contains("1 passed"), "the test ran: {output}");
    }
    let error = idempotency_lambda::init().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    // Of several mistakes the error names one.
    assert!(
        error.to_string().contains("share the key prefix"),
        "{error}"
    );
}

#[test]
fn built_operations_with_one_prefix_are_refused_unless_both_set_shared_key_prefix() {
    let named = |path: &str| Operation::builder(path).key_prefix("prefixes.built");
    assert!(named("shop::charge").build().is_ok());
    for _ in 0..3 {
        assert!(named("shop::charge").build().is_ok(), "the same again");
        let error = named("shop::ship").build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("shop::charge"), "{error}");
        // It is not enough that one of them sets it.
        assert!(named("shop::ship").shared_key_prefix(true).build().is_err());
    }
    let shared = |path: &str| {
        Operation::builder(path)
            .key_prefix("prefixes.both")
            .shared_key_prefix(true)
    };
    assert!(shared("shop::charge").build().is_ok());
    assert!(shared("shop::ship").build().is_ok());
    let third = Operation::builder("shop::refund").key_prefix("prefixes.both");
    assert!(third.build().is_err());
}

#[test]
fn an_equal_path_with_other_key_settings_is_another_operation() {
    let by_order_id = |path: &str| Operation::builder(path).key("order_id");
    assert!(by_order_id("twins::charge").build().is_ok());
    for other in [
        Operation::builder("twins::charge"),
        Operation::builder("twins::charge").key("shipment_id"),
        by_order_id("twins::charge").validate("amount"),
        by_order_id("twins::charge").hash(HashAlgorithm::Sha256),
    ] {
        let error = other.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration);
        let error = error.to_string();
        for said in ["`twins::charge`", "twins.charge`", "`shared_key_prefix`"] {
            assert!(error.contains(said), "{error}");
        }
    }
    let again = by_order_id("twins::charge").expires_after(Duration::from_secs(1));
    assert!(again.build().is_ok(), "the key settings are equal");
    assert!(by_order_id("twins::ship").build().is_ok(), "another path");
}

#[test]
fn operations_of_one_path_share_a_prefix_only_if_all_set_shared_key_prefix() {
    let shared = |key: &str| {
        Operation::builder("versions::charge")
            .key_prefix("prefixes.versions")
            .shared_key_prefix(true)
            .key(key)
    };
    assert!(shared("order_id").build().is_ok());
    assert!(shared("order.id").build().is_ok());
    assert!(shared("order_id").build().is_ok());
    for key in ["order_id", "order.id"] {
        let alone = shared(key).shared_key_prefix(false);
        assert!(alone.build().is_err(), "{key}");
    }
}

#[test]
fn an_annotated_function_owns_its_prefix_before_any_operation_is_built() {
    let named = |prefix: &str| Operation::builder("shop::built").key_prefix(prefix);
    let error = named("prefixes.shared").build().unwrap_err().to_string();
    assert!(error.contains("start.rs:"), "{error}");
    assert!(
        named("prefixes.shared")
            .shared_key_prefix(true)
            .build()
            .is_ok()
    );
    assert!(
        named("prefixes.charge")
            .shared_key_prefix(true)
            .build()
            .is_err()
    );
}

#[test]
fn with_one_variable_for_all_functions_each_operation_has_its_own_prefix() {
    let globals = || {
        let name = "IDEMPOTENCY_KEY_PREFIX".to_owned();
        Variables::from_iter([(name, "prefixes".to_owned())])
    };
    let build = |path: &str| {
        Operation::builder(path)
            .variables(globals())
            .build()
            .unwrap()
    };
    let (charge, ship) = (build("globals::charge"), build("globals::ship"));
    assert_eq!(charge.key_prefix(), "prefixes.globals.charge");
    assert_eq!(ship.key_prefix(), "prefixes.globals.ship");
}

#[test]
fn a_shared_prefix_must_be_set_explicitly() {
    let error = Operation::builder("globals::refund")
        .shared_key_prefix(true)
        .build();
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("needs a `key_prefix`")
    );
}

mod same_name {
    use super::*;

    pub(super) async fn first() -> Result<u32, BoxError> {
        #[idempotent(payload = order)]
        async fn pay(order: u32) -> Result<u32, BoxError> {
            Ok(order)
        }
        pay(1).await
    }

    pub(super) async fn second() -> Result<u32, BoxError> {
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
    assert!(text.matches("tests/start.rs").count() >= 2, "{text}");
    assert!(text.contains("key_prefix"), "{text}");
    for _ in 0..2 {
        for call in [same_name::first().await, same_name::second().await] {
            let error = call.unwrap_err();
            assert!(
                error.to_string().contains("share the key prefix"),
                "{error}"
            );
        }
    }
}
