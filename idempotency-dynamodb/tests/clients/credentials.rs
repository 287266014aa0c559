//! Credentials: kept as the SDK keeps them, loaded again before they expire, and never shown.

use super::Kind;
use super::script::Wire;
use aws_config::SdkConfig;
use aws_credential_types::credential_fn::provide_credentials_fn;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::config::{Credentials, IdentityCache, SharedCredentialsProvider};
use idempotency_core::store::Store;
use idempotency_dynamodb::{DynamoDbStore, LeanClient, sdk_client};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

fn unused() -> Credentials {
    Credentials::new("unused", "s3cr3t", None, None, "test")
}

/// Returns a configuration that numbers the credentials that it loads (`key0`, `key1`), and the number of loads.
fn numbered(wire: &Wire, valid_for: Duration) -> (SdkConfig, Arc<AtomicUsize>) {
    let loads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&loads);
    let provider = provide_credentials_fn(move || {
        let loads = Arc::clone(&counted);
        async move {
            // Requests that wait for the same credentials meet here.
            tokio::task::yield_now().await;
            let access = format!("key{}", loads.fetch_add(1, Ordering::Relaxed));
            let expiry = SystemTime::now() + valid_for;
            let token = Some("t0ken".to_owned());
            Ok(Credentials::new(
                access,
                "s3cr3t",
                token,
                Some(expiry),
                "test",
            ))
        }
    });
    let config = wire.config(unused());
    let config = config.credentials_provider(SharedCredentialsProvider::new(provider));
    (config.build(), loads)
}

/// Returns the access keys of these requests.
fn keys(wire: &Wire) -> Vec<String> {
    let sent = wire.take();
    let key = |credential: &str| credential.split('/').next().unwrap().to_owned();
    sent.iter().map(|sent| key(sent.credential())).collect()
}

#[tokio::test]
async fn credentials_are_loaded_once_and_kept_until_they_are_about_to_expire() {
    for kind in Kind::ALL {
        for (seconds, expected) in [(3_600, ["key0"; 3]), (4, ["key0", "key1", "key2"])] {
            let wire = Wire::default();
            let (config, _) = numbered(&wire, Duration::from_secs(seconds));
            let store = kind.store(&config);
            for _ in 0..3 {
                store.warm_up(false).await.unwrap();
            }
            assert_eq!(keys(&wire), expected, "{kind:?}");
        }
    }
}

#[tokio::test]
async fn requests_that_begin_together_load_credentials_once() {
    let wire = Wire::default();
    let (config, loads) = numbered(&wire, Duration::from_secs(3_600));
    let store = Arc::new(Kind::Lean.store(&config));
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = Arc::clone(&store);
        requests.spawn(async move { store.warm_up(false).await.unwrap() });
    }
    requests.join_all().await;
    assert_eq!(keys(&wire), ["key0"; 8]);
    assert_eq!(loads.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn the_credentials_cache_of_the_user_is_used() {
    let wire = Wire::default();
    let (config, _) = numbered(&wire, Duration::from_secs(3_600));
    let config = config
        .into_builder()
        .identity_cache(IdentityCache::no_cache());
    let store = Kind::Lean.store(&config.build());
    for _ in 0..3 {
        store.warm_up(false).await.unwrap();
    }
    let keys: BTreeSet<_> = keys(&wire).into_iter().collect();
    assert_eq!(keys.len(), 3);
}

#[tokio::test]
async fn credentials_that_cannot_be_loaded_are_the_same_error() {
    let mut texts = Vec::new();
    for kind in Kind::ALL {
        let wire = Wire::default();
        let failing = provide_credentials_fn(|| async {
            Err::<Credentials, _>(CredentialsError::not_loaded("the role was deleted"))
        });
        let config = wire.config(unused());
        let config = config.credentials_provider(SharedCredentialsProvider::new(failing));
        let store = kind.store(&config.build());
        let error = store.warm_up(false).await.unwrap_err();
        texts.push(format!("{:?} {error}", error.kind()));
        assert!(keys(&wire).is_empty());
    }
    assert!(texts[0].starts_with("Credentials there are no credentials for"));
    assert_eq!(texts[0], texts[1]);
}

#[tokio::test]
async fn nothing_shows_credentials() {
    let wire = Wire::default();
    let config = wire.config(unused()).build();
    let store = Kind::Lean.store(&config);
    store.warm_up(false).await.unwrap();
    let client = LeanClient::new(sdk_client(&config));
    for text in [format!("{client:?}"), format!("{store:?}")] {
        assert!(text.contains("eu-west-1"), "{text}");
        let secret = text.contains("s3cr3t") || text.contains("unused");
        assert!(!secret, "{text}");
    }
    // The SDK's client shows its settings, with the access key and without the secret.
    let builder = Kind::Lean.with_config(&config);
    assert!(!format!("{builder:?}").contains("s3cr3t"));
}

#[tokio::test]
async fn an_adaptive_configuration_gets_the_client_of_the_sdk() {
    let wire = Wire::default();
    let config = wire.config(unused());
    let config = config.retry_config(aws_config::retry::RetryConfig::adaptive());
    let store = DynamoDbStore::builder().table("payments");
    let store = store.sdk_config(&config.build()).build().unwrap();
    store.warm_up(false).await.unwrap();
    assert_ne!(wire.take()[0].header("amz-sdk-request"), "");
}

#[test]
fn an_adaptive_client_is_refused_with_what_to_use() {
    let config = Wire::default().config(unused());
    let config = config.retry_config(aws_config::retry::RetryConfig::adaptive());
    let client = LeanClient::new(sdk_client(&config.build()));
    let store = DynamoDbStore::builder().table("payments");
    let error = store.lean_client(client).build().unwrap_err().to_string();
    let named = "use the standard mode (AWS_RETRY_MODE";
    assert!(error.contains(named), "{error}");
}
