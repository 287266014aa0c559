//! Notes the sends of the SDK's client.
//!
//! The SDK calls interceptors at each step of a call. One that is configured for a single call makes the SDK merge a further
//! configuration into that call, which costs more CPU than all that the store does itself. So the interceptor is a part of the
//! client, and finds the notes of its call in a variable of the thread: the steps of a call happen while its future is polled.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::interceptors::FinalizerInterceptorContextRef;
use aws_sdk_dynamodb::error::{BoxError, ErrorMetadata, ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::interceptors::context::Error;
use dynamodb_writes::__private::{SdkSendNotes, end, interceptor};

use crate::sends::Sends;

thread_local! {
    /// The call whose future is polled now.
    static CURRENT: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// A call of the SDK's client, for the interceptor.
struct Call {
    sends: Sends,
    /// Returns code and message of an error of the call's operation.
    meta: fn(&Error) -> Option<&ErrorMetadata>,
}

/// Returns a client like this one whose calls are noted. `None` if it would not share connections and credentials with this one:
/// the SDK makes an HTTP client and a cache of credentials for each client that is configured without them.
pub(super) fn noting_client(client: &Client) -> Option<Client> {
    let config = client.config();
    config.http_client()?;
    config.identity_cache()?;
    let mut builder = config.to_builder();
    builder.push_interceptor(interceptor(CurrentNotes));
    Some(Client::from_conf(builder.build()))
}

/// Returns a configuration of one call, so that a call of any client is noted.
pub(super) fn noting_call() -> Builder {
    let mut builder = Builder::new();
    builder.push_interceptor(interceptor(CurrentNotes));
    builder
}

/// Performs a call, and notes its sends. The call must have the interceptor, from [`noting_client`] or from [`noting_call`].
pub(super) async fn noted<T, E>(
    sends: &Sends,
    mut call: Pin<&mut impl Future<Output = Result<T, SdkError<E>>>>,
) -> Result<T, SdkError<E>>
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    poll_fn(|context| {
        let _entered = CurrentCall::new(Call {
            sends: sends.clone(),
            meta: |error| error.downcast_ref::<E>().map(ProvideErrorMetadata::meta),
        });
        call.as_mut().poll(context)
    })
    .await
}

/// The poll of a call. Its end brings back the call around it, if there is one, also after a panic.
struct CurrentCall(Option<Call>);

impl CurrentCall {
    fn new(call: Call) -> Self {
        Self(CURRENT.replace(Some(call)))
    }
}

impl Drop for CurrentCall {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Notes each send in the current call.
#[derive(Debug)]
struct CurrentNotes;

impl SdkSendNotes for CurrentNotes {
    fn timeout(&self, own: Duration) -> Result<Duration, BoxError> {
        current(|call| call.sends.timeout(own))
    }

    fn starts(&self, uri: &str) -> Result<(), BoxError> {
        current(|call| call.sends.starts(uri))
    }

    fn ends(&self, context: &FinalizerInterceptorContextRef<'_>) -> Result<(), BoxError> {
        current(|call| call.sends.ends(end(context, call.meta)))
    }
}

/// Uses the current call.
///
/// # Errors
///
/// If there is none. The SDK then ends the call before it sends: what is not noted must not be sent.
fn current<T>(use_it: impl FnOnce(&Call) -> T) -> Result<T, BoxError> {
    CURRENT.with_borrow(|call| match call {
        Some(call) => Ok(use_it(call)),
        None => Err("a request of the store was polled without its notes".into()),
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
    use aws_sdk_dynamodb::config::retry::RetryConfig;
    use aws_sdk_dynamodb::config::{
        self, BehaviorVersion, Credentials, HttpClient, IdentityCache, Region, RuntimeComponents,
    };
    use aws_sdk_dynamodb::operation::delete_item::builders::DeleteItemFluentBuilder;
    use aws_sdk_dynamodb::types::AttributeValue;
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
    };
    use aws_smithy_runtime_api::client::result::ConnectorError;
    use aws_smithy_types::body::SdkBody;
    use idempotency_core::store::SendLog;

    use super::*;
    use crate::failure::tests::table;

    /// Loses the reply to a request that names `lost`, and throttles every other one. Each takes two polls.
    #[derive(Clone, Debug, Default)]
    struct Http {
        sent: Arc<AtomicUsize>,
    }

    impl HttpConnector for Http {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            self.sent.fetch_add(1, Ordering::Relaxed);
            let body = String::from_utf8_lossy(request.body().bytes().unwrap()).into_owned();
            HttpConnectorFuture::new(async move {
                tokio::task::yield_now().await;
                if body.contains("lost") {
                    let reset = io::Error::from(io::ErrorKind::ConnectionReset);
                    return Err(ConnectorError::io(Box::new(reset)));
                }
                let throttled =
                    r#"{"__type":"com.amazonaws#ThrottlingException","message":"later"}"#;
                let status = 400.try_into().unwrap();
                Ok(HttpResponse::new(status, SdkBody::from(throttled)))
            })
        }
    }

    impl HttpClient for Http {
        fn http_connector(
            &self,
            _: &HttpConnectorSettings,
            _: &RuntimeComponents,
        ) -> SharedHttpConnector {
            SharedHttpConnector::new(self.clone())
        }
    }

    /// Returns the configuration of a client that sends once, without an HTTP client and a cache of credentials.
    fn config() -> config::Builder {
        aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::from_static("eu-west-1"))
            .retry_config(RetryConfig::disabled())
            .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
    }

    fn cache() -> impl config::ResolveCachedIdentity + 'static {
        IdentityCache::lazy().build()
    }

    /// Returns a client whose calls are noted.
    fn client(http: &Http) -> Client {
        let config = config().http_client(http.clone()).identity_cache(cache());
        noting_client(&Client::from_conf(config.build())).unwrap()
    }

    fn delete(client: &Client, id: &str) -> DeleteItemFluentBuilder {
        let key = AttributeValue::S(id.to_owned());
        client.delete_item().table_name("payments").key("id", key)
    }

    fn sends(log: &SendLog) -> Sends {
        Sends::new(log, &Arc::new(table()), "dynamodb:DeleteItem")
    }

    #[tokio::test]
    async fn two_calls_in_one_task_have_notes_of_their_own() {
        let http = Http::default();
        let client = client(&http);
        let (lost, throttled) = (SendLog::new(), SendLog::new());
        let (of_lost, of_throttled) = (sends(&lost), sends(&throttled));
        let first = pin!(delete(&client, "lost").send());
        let second = pin!(delete(&client, "refused").send());
        let both = futures_util::future::join(noted(&of_lost, first), noted(&of_throttled, second));
        let (first, second) = both.await;
        assert!(first.is_err() && second.is_err());
        assert_eq!((lost.sends(), throttled.sends()), (1, 1));
        assert!(lost.maybe_applied(), "its reply was lost");
        assert!(
            !throttled.maybe_applied(),
            "DynamoDB refused it, with a code that the notes must have read"
        );
    }

    #[tokio::test]
    async fn a_call_that_is_polled_without_its_notes_is_not_sent() {
        let http = Http::default();
        let error = delete(&client(&http), "refused").send().await.unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("polled without its notes"), "{text}");
        assert_eq!(http.sent.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_call_of_a_client_without_the_interceptor_is_noted_by_its_own() {
        let http = Http::default();
        let client = Client::from_conf(config().http_client(http.clone()).build());
        let log = SendLog::new();
        let call = delete(&client, "lost").customize();
        let call = pin!(call.config_override(noting_call()).send());
        let sends = sends(&log);
        assert!(noted(&sends, call).await.is_err());
        assert_eq!((log.sends(), log.maybe_applied()), (1, true));
    }

    #[test]
    fn a_client_that_would_not_share_its_connections_and_credentials_is_not_made() {
        let http = Http::default();
        for (config, shared) in [
            (config(), false),
            (config().identity_cache(cache()), false),
            (config().http_client(http.clone()), false),
            (config().http_client(http).identity_cache(cache()), true),
        ] {
            let client = Client::from_conf(config.build());
            assert_eq!(noting_client(&client).is_some(), shared);
        }
    }
}
