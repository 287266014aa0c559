//! A DynamoDB client with timeouts that suit a Lambda function.

use std::time::Duration;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::{ProvideRegion, RegionProviderChain};
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Builder, StalledStreamProtectionConfig};
use idempotency_core::config::ConfigurationError;

/// How long a connection may take to come about, TLS included.
const CONNECT: Duration = Duration::from_secs(1);

/// How long one send may take, if the caller waits for so long: see `Attempts`. DynamoDB answers within tens of
/// milliseconds; a send that hangs is better repeated.
const ATTEMPT: Duration = Duration::from_millis(1_500);

/// A first send and four more. Of ten requests that each fail once in ten sends, one in 100,000 then fails.
const ATTEMPTS: u32 = 5;

/// The longest pause before the second send, in a store that responds in milliseconds. Each further pause may be twice as
/// long: 25, 50, 100 and 200 ms at most, with full jitter, so 188 ms in the mean for all four.
const INITIAL_BACKOFF: Duration = Duration::from_millis(25);

/// The longest pause where the caller's own configuration sends more often.
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// The SDK's behaviour as of this date, so that an update of the SDK alone changes none of it.
fn behavior() -> BehaviorVersion {
    BehaviorVersion::v2026_01_12()
}

/// A client made for this store: the default chain of credentials, 1 s to connect, 1.5 s a send, at most five sends.
///
/// A send that was throttled, or that failed in a way that may pass, is repeated after a random pause of at most 25 ms,
/// then 50, 100 and 200 ms. The SDK's retry quota (a token bucket of the process) ends the repetitions of a process whose
/// requests fail time and again.
///
/// The region is read from `AWS_REGION`, `AWS_DEFAULT_REGION` or the profile. No request is sent. Building a client of
/// the SDK's takes a few milliseconds, so a process makes one.
///
/// ```no_run
/// # async fn example() -> Result<(), idempotency_core::config::ConfigurationError> {
/// let client = idempotency_dynamodb::default_client().await?;
/// let store = idempotency_dynamodb::DynamoDbStore::builder().table("idempotency").client(client).build()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If no region is configured.
pub async fn default_client() -> Result<Client, ConfigurationError> {
    // Not the SDK's own chain: that ends with EC2's metadata service, which a function waits for in vain.
    let region =
        RegionProviderChain::first_try(present(&EnvironmentVariableRegionProvider::new()).await)
            .or_else(
                std::env::var("AWS_DEFAULT_REGION")
                    .ok()
                    .map(Region::new)
                    .filter(is_present),
            )
            .or_else(ProfileFileRegionProvider::new())
            .region()
            .await;
    client_in(region).await
}

/// Returns the region that `provider` names. An empty one counts as not set.
async fn present(provider: &impl ProvideRegion) -> Option<Region> {
    provider.region().await.filter(is_present)
}

pub(crate) fn is_present(region: &Region) -> bool {
    !region.as_ref().trim().is_empty()
}

async fn client_in(region: Option<Region>) -> Result<Client, ConfigurationError> {
    let region = region.filter(is_present).ok_or_else(no_region)?;
    let config = aws_config::defaults(behavior())
        .region(region)
        .retry_config(retries(None))
        .timeout_config(timeouts())
        // Requests are small, and the timeout of a send covers a stream that stalls.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .load()
        .await;
    Ok(from_sdk_config(&config))
}

/// Returns a client from a configuration of the caller's; timeouts and retry settings that it leaves out are this crate's.
pub(crate) fn from_sdk_config(config: &SdkConfig) -> Client {
    let own = config
        .timeout_config()
        .map_or_else(TimeoutConfig::builder, TimeoutConfig::to_builder);
    let timeouts = own.take_unset_from(timeouts().to_builder()).build();
    // From the converted configuration: the SDK settles there which retry behaviour the variables ask for.
    let mut builder = Builder::from(config);
    let retries = retries(builder.clone().build().retry_config());
    builder = builder.timeout_config(timeouts).retry_config(retries);
    if config.behavior_version().is_none() {
        builder = builder.behavior_version(behavior());
    }
    Client::from_conf(builder.build())
}

/// Returns the retry settings of a client whose own ones are these. What equals the SDK's default counts as left out,
/// because `aws_config` writes the defaults into every configuration that it loads.
fn retries(own: Option<&RetryConfig>) -> RetryConfig {
    let standard = RetryConfig::standard();
    let Some(own) = own else {
        return retries(Some(&standard));
    };
    let chosen = |own: Duration, standard: Duration| Some(own).filter(|own| *own != standard);
    let initial =
        chosen(own.initial_backoff(), standard.initial_backoff()).unwrap_or(INITIAL_BACKOFF);
    // Where it is not chosen, never below what was chosen for the first pause.
    let longest = chosen(own.max_backoff(), standard.max_backoff())
        .unwrap_or_else(|| MAX_BACKOFF.max(initial));
    let attempts = if *own == standard {
        ATTEMPTS
    } else {
        own.max_attempts()
    };
    own.clone()
        .with_max_attempts(attempts)
        .with_initial_backoff(initial)
        .with_max_backoff(longest)
}

/// What is wrong with a client without a region.
pub(crate) fn no_region() -> ConfigurationError {
    let empty = std::env::var_os("AWS_REGION")
        .is_some_and(|region| region.to_string_lossy().trim().is_empty());
    ConfigurationError::new(no_region_text(empty))
}

fn no_region_text(empty: bool) -> &'static str {
    if empty {
        "AWS_REGION is empty, which counts as not set, and no other AWS region is configured for DynamoDB: set it to a \
         region, such as `eu-west-1`"
    } else {
        "no AWS region is configured for DynamoDB: set AWS_REGION, such as `eu-west-1`"
    }
}

fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(ATTEMPT)
        .build()
}

#[cfg(test)]
mod tests {
    use aws_config::retry::RetryMode;

    use super::*;

    #[tokio::test]
    async fn a_client_without_a_region_is_refused_with_the_variable_to_set() {
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
            assert_eq!(present(&empty).await, None);
            let error = client_in(Some(empty)).await.unwrap_err();
            assert!(error.to_string().contains("AWS_REGION"), "{error}");
        }
        let region = Region::from_static("eu-west-1");
        assert_eq!(present(&region).await, Some(region.clone()));
        assert!(no_region_text(true).starts_with("AWS_REGION is empty"));
    }

    #[tokio::test]
    async fn our_client_has_explicit_timeouts_and_pauses_that_suit_a_store_of_milliseconds() {
        let client = client_in(Some(Region::from_static("eu-west-1")))
            .await
            .unwrap();
        let timeouts = client.config().timeout_config().unwrap();
        assert_eq!(timeouts.connect_timeout(), Some(CONNECT));
        assert_eq!(timeouts.operation_attempt_timeout(), Some(ATTEMPT));
        let retries = client.config().retry_config().unwrap();
        assert_eq!(retries.mode(), RetryMode::Standard);
        assert_eq!(retries.max_attempts(), 5);
        assert_eq!(retries.initial_backoff(), Duration::from_millis(25));
        assert_eq!(retries.max_backoff(), Duration::from_millis(500));
    }

    fn of_the_callers(retries: Option<RetryConfig>) -> RetryConfig {
        let mut config = SdkConfig::builder().region(Region::from_static("eu-west-1"));
        config.set_retry_config(retries);
        let client = from_sdk_config(&config.build());
        client.config().retry_config().unwrap().clone()
    }

    #[test]
    fn retries_that_the_caller_left_out_are_ours() {
        let ours = retries(None);
        assert_eq!(of_the_callers(None), ours);
        assert_eq!(of_the_callers(Some(RetryConfig::standard())), ours);
        let attempts = of_the_callers(Some(RetryConfig::standard().with_max_attempts(9)));
        assert_eq!(attempts, ours.clone().with_max_attempts(9));
        let adaptive = of_the_callers(Some(RetryConfig::adaptive()));
        assert_eq!(adaptive.mode(), RetryMode::Adaptive);
        assert_eq!(adaptive.initial_backoff(), INITIAL_BACKOFF);
        let slow = RetryConfig::standard().with_initial_backoff(Duration::from_secs(2));
        assert_eq!(
            of_the_callers(Some(slow)).max_backoff(),
            Duration::from_secs(2)
        );
    }

    #[test]
    fn retries_of_the_callers_own_stay() {
        assert!(!of_the_callers(Some(RetryConfig::disabled())).has_retry());
        let own = RetryConfig::standard()
            .with_max_attempts(2)
            .with_initial_backoff(Duration::from_millis(7))
            .with_max_backoff(Duration::from_millis(70));
        assert_eq!(of_the_callers(Some(own.clone())), own);
    }

    #[test]
    fn timeouts_of_the_callers_own_stay_and_missing_ones_are_filled_in() {
        let own = TimeoutConfig::builder()
            .connect_timeout(Duration::from_millis(200))
            .build();
        let config = SdkConfig::builder()
            .region(Region::from_static("eu-west-1"))
            .timeout_config(own)
            .build();
        let client = from_sdk_config(&config);
        let timeouts = client.config().timeout_config().unwrap();
        assert_eq!(timeouts.connect_timeout(), Some(Duration::from_millis(200)));
        assert_eq!(timeouts.operation_attempt_timeout(), Some(ATTEMPT));
    }
}
