//! Makes DynamoDB clients with timeouts and retries that suit a Lambda function.

use std::time::Duration;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::{ProvideRegion, RegionProviderChain};
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
#[cfg(feature = "profiles")]
use aws_sdk_dynamodb::config::SharedCredentialsProvider;
use aws_sdk_dynamodb::config::{Builder, SharedHttpClient, StalledStreamProtectionConfig};
use aws_smithy_runtime::client::defaults::default_http_client_plugin_v2;
use aws_types::service_config::ServiceConfigKey;
use dynamodb_lean_client::sdk::Recognises;
use idempotency_core::config::ConfigurationError;

use super::environment;
#[cfg(any(feature = "rustls-ring", feature = "rustls-aws-lc"))]
use super::http;
#[cfg(feature = "profiles")]
use super::unhurried::Unhurried;

/// The timeout to open a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(1);

/// The timeout of one send; `Sends` shortens it if the caller waits for less. DynamoDB responds within tens of
/// milliseconds, so a send that hangs is repeated.
const SEND_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The largest number of sends. If each send fails with a probability of 10 %, one request in 100,000 fails.
const MAX_SENDS: u32 = 5;

/// The longest pause before the second send; DynamoDB responds in milliseconds. Each further pause can be twice as long: at
/// most 25, 50, 100 and 200 ms, with full jitter, so 188 ms on average for all four.
const INITIAL_BACKOFF: Duration = Duration::from_millis(25);

/// The longest pause if the caller's configuration sends more often.
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// Returns the SDK's behaviour as of this date, so that an update of the SDK does not change it.
fn behavior() -> BehaviorVersion {
    BehaviorVersion::v2026_01_12()
}

/// Makes a client for this store: the default credentials chain, 1 s to connect, 1.5 s for each send, at most five sends.
///
/// A send that was throttled, or that failed temporarily, is repeated after a random pause of at most 25, then 50, 100 and
/// 200 ms. The SDK's retry quota (a token bucket of the process) stops the repetitions of a process whose requests keep
/// failing.
///
/// The region is read from `AWS_REGION`, `AWS_DEFAULT_REGION` or the profile. No request is sent. Building an SDK client
/// takes a few milliseconds, so a process should make only one.
///
/// # Errors
///
/// If no region is configured, if `AWS_CA_BUNDLE` names no file with certificates, or if the program has no TLS provider: neither this
/// crate's features `rustls-ring` and `rustls-aws-lc`, nor the SDK's own client.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), idempotency_core::config::ConfigurationError> {
/// let client = idempotency_dynamodb::default_client().await?;
/// let store = idempotency_dynamodb::DynamoDbStore::builder().table("idempotency").client(client).build()?;
/// # Ok(())
/// # }
/// ```
pub async fn default_client() -> Result<Client, ConfigurationError> {
    // Not the SDK's default chain: it ends with EC2's metadata service, which does not exist in Lambda.
    let region =
        RegionProviderChain::first_try(region_of(&EnvironmentVariableRegionProvider::new()).await)
            .or_else(
                std::env::var("AWS_DEFAULT_REGION")
                    .ok()
                    .map(Region::new)
                    .filter(is_set),
            )
            .or_else(ProfileFileRegionProvider::new())
            .region()
            .await;
    client_in(region).await
}

/// Returns the region of `provider`. An empty one counts as not set.
async fn region_of(provider: &impl ProvideRegion) -> Option<Region> {
    provider.region().await.filter(is_set)
}

pub(crate) fn is_set(region: &Region) -> bool {
    !region.as_ref().trim().is_empty()
}

async fn client_in(region: Option<Region>) -> Result<Client, ConfigurationError> {
    Ok(sdk_client(&sdk_config_in(region).await?))
}

async fn sdk_config_in(region: Option<Region>) -> Result<SdkConfig, ConfigurationError> {
    let region = region.filter(is_set).ok_or_else(no_region)?;
    check_region(region.as_ref())?;
    check_credentials(|name| std::env::var(name).ok())?;
    #[cfg(any(feature = "rustls-ring", feature = "rustls-aws-lc"))]
    http::check_bundle().map_err(ConfigurationError::new)?;
    let mut config = aws_config::defaults(behavior())
        .region(region)
        .retry_config(retries(None))
        .timeout_config(timeouts());
    // For the requests of credential providers too.
    match own_http_client() {
        Some(http_client) => config = config.http_client(http_client),
        // Without an HTTP client the SDK would panic.
        None if default_http_client_plugin_v2(behavior()).is_none() => return Err(no_tls()),
        None => {}
    }
    let config = config.load().await;
    if let Some(endpoint) = set_endpoint(&config) {
        check_endpoint(&endpoint)?;
    }
    #[cfg(feature = "profiles")]
    if let Some(provider) = config.credentials_provider() {
        let provider = SharedCredentialsProvider::new(Unhurried::new(provider));
        return Ok(config.into_builder().credentials_provider(provider).build());
    }
    Ok(config)
}

/// Returns what to do about a certificate that is not trusted.
pub(crate) fn authorities() -> String {
    #[cfg(any(feature = "rustls-ring", feature = "rustls-aws-lc"))]
    let remedy = http::authorities();
    #[cfg(not(any(feature = "rustls-ring", feature = "rustls-aws-lc")))]
    let remedy = "let the HTTP client of the program trust its authority".to_owned();
    remedy
}

/// Returns the error of a program without a TLS provider.
fn no_tls() -> ConfigurationError {
    ConfigurationError::new(
        "this program was built without a TLS provider for DynamoDB: enable the feature `rustls-ring` or `rustls-aws-lc` of \
         idempotency-lambda or idempotency-dynamodb, or give the store a client of your own",
    )
}

/// Returns the HTTP client of this crate's features. `None` without them: then the SDK uses its own, if it has one.
fn own_http_client() -> Option<SharedHttpClient> {
    #[cfg(any(feature = "rustls-ring", feature = "rustls-aws-lc"))]
    let client = Some(http::http_client());
    #[cfg(not(any(feature = "rustls-ring", feature = "rustls-aws-lc")))]
    let client = None;
    client
}

/// Makes a client of the SDK from the caller's configuration. Timeouts, retry settings and an HTTP client that it does not set are
/// those of [`DynamoDbStoreBuilder::sdk_config`](crate::DynamoDbStoreBuilder::sdk_config).
///
/// # Examples
///
/// ```
/// # use aws_config::{Region, SdkConfig};
/// # use idempotency_dynamodb::{DynamoDbStore, sdk_client};
/// // The SDK's client in place of the lean one.
/// let config = SdkConfig::builder().region(Region::new("eu-west-1")).build();
/// let store = DynamoDbStore::builder().table("idempotency").client(sdk_client(&config)).build()?;
/// # Ok::<(), idempotency_core::config::ConfigurationError>(())
/// ```
pub fn sdk_client(config: &SdkConfig) -> Client {
    let own = config
        .timeout_config()
        .map_or_else(TimeoutConfig::builder, TimeoutConfig::to_builder);
    let timeouts = own.take_unset_from(timeouts().to_builder()).build();
    let limited = timeouts.operation_attempt_timeout().is_some();
    // From the converted configuration, in which the SDK has applied the environment variables for retries.
    let mut builder = Builder::from(config);
    let retries = retries(builder.clone().build().retry_config());
    builder = builder.timeout_config(timeouts).retry_config(retries);
    if config.behavior_version().is_none() {
        builder = builder.behavior_version(behavior());
    }
    if config.http_client().is_none() {
        builder.set_http_client(own_http_client());
    }
    if limited && config.stalled_stream_protection().is_none() {
        // Requests are small, and the timeout of a send covers a stream that stalls.
        builder = builder.stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    }
    Client::from_conf(builder.interceptor(Recognises).build())
}

/// Returns the retry settings to use with these settings of the caller. A setting that equals the SDK's default counts as not
/// set, because `aws_config` writes the defaults into every configuration that it loads.
fn retries(own: Option<&RetryConfig>) -> RetryConfig {
    let standard = RetryConfig::standard();
    let Some(own) = own else {
        return retries(Some(&standard));
    };
    let chosen = |own: Duration, standard: Duration| Some(own).filter(|own| *own != standard);
    let initial =
        chosen(own.initial_backoff(), standard.initial_backoff()).unwrap_or(INITIAL_BACKOFF);
    // If it is not set, at least as long as the first pause.
    let longest = chosen(own.max_backoff(), standard.max_backoff())
        .unwrap_or_else(|| MAX_BACKOFF.max(initial));
    let sends = if *own == standard {
        MAX_SENDS
    } else {
        own.max_attempts()
    };
    own.clone()
        .with_max_attempts(sends)
        .with_initial_backoff(initial)
        .with_max_backoff(longest)
}

/// Checks that a region can have this name.
pub(crate) fn check_region(region: &str) -> Result<(), ConfigurationError> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    if region.chars().all(is_allowed) {
        return Ok(());
    }
    let remedy = "write the name of a region, such as `eu-west-1`";
    let shown = region.escape_debug().to_string();
    Err(ConfigurationError::value(
        "the region (AWS_REGION)",
        &shown,
        remedy,
    ))
}

/// Checks that an endpoint is a URL.
fn check_endpoint(endpoint: &str) -> Result<(), ConfigurationError> {
    let (scheme, rest) = endpoint.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_url = ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str())
        && !host.is_empty()
        && endpoint.chars().all(|letter| letter.is_ascii_graphic());
    if is_url {
        return Ok(());
    }
    // A URL can contain a password.
    let shown = endpoint.rsplit('@').next().unwrap_or_default();
    let shown = shown.escape_debug().to_string();
    Err(ConfigurationError::value(
        "the endpoint (AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL or `endpoint_url` of the profile)",
        &shown,
        "write a URL, such as `http://localhost:8000`",
    ))
}

/// Checks the variables with credentials. A signature with a blank is refused, and a token with a line break cannot be sent.
fn check_credentials(value: impl Fn(&str) -> Option<String>) -> Result<(), ConfigurationError> {
    for name in [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
    ] {
        let is_wrong = |letter: char| !letter.is_ascii_graphic();
        // A blank value counts as not set.
        let value = value(name).filter(|value| !value.trim().is_empty());
        if value.is_some_and(|value| value.contains(is_wrong)) {
            return Err(ConfigurationError::new(format!(
                "{name} has a blank, a line break or another character that no credentials have: set it again without it"
            )));
        }
    }
    Ok(())
}

/// Returns the endpoint that a variable or a profile sets.
fn set_endpoint(config: &SdkConfig) -> Option<String> {
    let key = ServiceConfigKey::builder()
        .service_id("DynamoDB")
        .env("AWS_ENDPOINT_URL")
        .profile("endpoint_url")
        .build();
    let of_service = config
        .service_config()
        .zip(key.ok())
        .and_then(|(services, key)| services.load_config(key));
    of_service.or_else(|| config.endpoint_url().map(str::to_owned))
}

/// Returns the error of a client without a region.
pub(crate) fn no_region() -> ConfigurationError {
    let empty = std::env::var_os("AWS_REGION")
        .is_some_and(|region| region.to_string_lossy().trim().is_empty());
    ConfigurationError::new(no_region_text(empty, environment::profile().as_deref()))
}

fn no_region_text(empty: bool, profile: Option<&str>) -> String {
    let mut text = if empty {
        "AWS_REGION is empty, which counts as not set, and no other AWS region is configured for DynamoDB: set it to a \
         region, such as `eu-west-1`"
            .to_owned()
    } else {
        "no AWS region is configured for DynamoDB: set AWS_REGION, such as `eu-west-1`".to_owned()
    };
    if let Some(profile) = profile {
        text +=
            &format!("; the profile `{profile}` (AWS_PROFILE) has no region, or is not defined");
    }
    text
}

fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(SEND_TIMEOUT)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_without_a_region_is_an_error_that_names_the_variable_to_set() {
        let error = client_in(None).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "no AWS region is configured for DynamoDB: set AWS_REGION, such as `eu-west-1`"
        );
    }

    #[tokio::test]
    async fn an_empty_region_counts_as_not_set() {
        for empty in ["", " "] {
            let empty = Region::from_static(empty);
            assert_eq!(region_of(&empty).await, None);
            let error = client_in(Some(empty)).await.unwrap_err();
            assert!(error.to_string().contains("AWS_REGION"), "{error}");
        }
        let region = Region::from_static("eu-west-1");
        assert_eq!(region_of(&region).await, Some(region.clone()));
        assert!(no_region_text(true, None).starts_with("AWS_REGION is empty"));
    }

    #[test]
    fn an_endpoint_that_is_no_url_and_credentials_with_a_blank_are_named() {
        for url in [
            "http://localhost:8000",
            "https://host/path",
            "HTTP://[::1]:1",
        ] {
            assert_eq!(check_endpoint(url), Ok(()));
        }
        for wrong in [
            "localhost:8000",
            "ftp://host",
            "http://",
            "http:///a",
            "http://a b",
            "http://a\n",
        ] {
            let text = check_endpoint(wrong).unwrap_err().to_string();
            assert!(
                text.contains(&format!("is `{}`: write a URL", wrong.escape_debug())),
                "{text}"
            );
        }
        let text = check_endpoint("ftp://user:s3cr3t@host")
            .unwrap_err()
            .to_string();
        assert!(!text.contains("s3cr3t"), "{text}");
        for (name, value, is_right) in [
            ("AWS_SESSION_TOKEN", "IQoJ/+=", true),
            ("AWS_SESSION_TOKEN", "", true),
            ("AWS_SESSION_TOKEN", "s3cr3t\nb", false),
            ("AWS_SECRET_ACCESS_KEY", "s3cr3t\r", false),
            ("AWS_ACCESS_KEY_ID", " s3cr3t", false),
        ] {
            let checked = check_credentials(|it| (it == name).then(|| value.to_owned()));
            assert_eq!(checked.is_ok(), is_right, "{name}");
            if let Err(error) = checked {
                let text = error.to_string();
                assert!(text.starts_with(name) && !text.contains("s3cr3t"), "{text}");
            }
        }
    }

    #[cfg(not(any(feature = "rustls-ring", feature = "rustls-aws-lc")))]
    #[tokio::test]
    async fn without_a_tls_provider_the_default_client_is_an_error_that_names_the_features() {
        let region = Some(Region::from_static("eu-west-1"));
        let text = client_in(region).await.unwrap_err().to_string();
        for named in ["`rustls-ring`", "`rustls-aws-lc`", "a client of your own"] {
            assert!(text.contains(named), "{text}");
        }
    }

    #[cfg(any(feature = "rustls-ring", feature = "rustls-aws-lc"))]
    #[tokio::test]
    async fn the_default_client_has_explicit_timeouts_and_short_pauses() {
        let client = client_in(Some(Region::from_static("eu-west-1")))
            .await
            .unwrap();
        let timeouts = client.config().timeout_config().unwrap();
        assert_eq!(timeouts.connect_timeout(), Some(CONNECT));
        assert_eq!(timeouts.operation_attempt_timeout(), Some(SEND_TIMEOUT));
        let retries = client.config().retry_config().unwrap();
        assert_eq!(retries.mode(), aws_config::retry::RetryMode::Standard);
        assert_eq!(retries.max_attempts(), 5);
        assert_eq!(retries.initial_backoff(), Duration::from_millis(25));
        assert_eq!(retries.max_backoff(), Duration::from_millis(500));
    }

    fn config() -> aws_types::sdk_config::Builder {
        SdkConfig::builder().region(Region::from_static("eu-west-1"))
    }

    #[test]
    fn retry_settings_that_the_caller_does_not_set_are_ours_and_the_others_are_kept() {
        let (standard, ours) = (RetryConfig::standard, retries(None));
        let ms = Duration::from_millis;
        let own = standard().with_max_attempts(2).with_initial_backoff(ms(7));
        let own = own.with_max_backoff(ms(70));
        let slow = standard().with_initial_backoff(ms(2_000));
        let adaptive = RetryConfig::adaptive().with_initial_backoff(INITIAL_BACKOFF);
        let adaptive = adaptive.with_max_backoff(MAX_BACKOFF);
        for (set, expected) in [
            (None, ours.clone()),
            (Some(standard()), ours.clone()),
            (
                Some(standard().with_max_attempts(9)),
                ours.clone().with_max_attempts(9),
            ),
            (Some(RetryConfig::adaptive()), adaptive),
            // The longest pause is at least as long as the first one.
            (Some(slow.clone()), slow.with_max_backoff(ms(2_000))),
            (Some(own.clone()), own),
        ] {
            let mut config = config();
            config.set_retry_config(set.clone());
            let client = sdk_client(&config.build());
            assert_eq!(client.config().retry_config(), Some(&expected), "{set:?}");
        }
        let disabled = config().retry_config(RetryConfig::disabled()).build();
        let client = sdk_client(&disabled);
        assert!(!client.config().retry_config().unwrap().has_retry());
    }

    #[test]
    fn timeouts_of_the_caller_are_kept_and_missing_ones_are_set() {
        let own = Duration::from_millis(200);
        let timeouts = TimeoutConfig::builder().connect_timeout(own).build();
        let client = sdk_client(&config().timeout_config(timeouts).build());
        let timeouts = client.config().timeout_config().unwrap();
        assert_eq!(timeouts.connect_timeout(), Some(own));
        assert_eq!(timeouts.operation_attempt_timeout(), Some(SEND_TIMEOUT));
    }

    /// `aws_config` hands the HTTP client of its loader to the credential providers.
    #[cfg(any(feature = "rustls-ring", feature = "rustls-aws-lc"))]
    #[tokio::test]
    async fn client_and_credential_providers_have_the_http_client_of_this_crate() {
        let region = Some(Region::from_static("eu-west-1"));
        let config = sdk_config_in(region).await.unwrap();
        let of = |config: &SdkConfig| sdk_client(config).config().http_client();
        let unset = SdkConfig::builder().build();
        for client in [config.http_client(), of(&config), of(&unset)] {
            assert!(format!("{client:?}").contains("Https"), "{client:?}");
        }
    }

    #[test]
    fn stalled_streams_are_left_to_the_timeout_of_a_send_unless_the_caller_chose_otherwise() {
        let enabled = |config: aws_types::sdk_config::Builder| {
            let client = sdk_client(&config.build());
            let chosen = client.config().stalled_stream_protection();
            chosen.map(StalledStreamProtectionConfig::is_enabled)
        };
        assert_eq!(enabled(config()), Some(false));
        let chosen = StalledStreamProtectionConfig::enabled().build();
        let chosen = config().stalled_stream_protection(chosen);
        assert_eq!(enabled(chosen), Some(true));
        let without_a_timeout = config().timeout_config(TimeoutConfig::disabled());
        assert_eq!(enabled(without_a_timeout), None);
    }
}
