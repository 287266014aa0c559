//! A DynamoDB client with timeouts that suit a Lambda function.

use std::time::Duration;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Builder, StalledStreamProtectionConfig};
use idempotency_core::config::ConfigurationError;

/// How long a connection may take to come about, TLS included.
const CONNECT: Duration = Duration::from_secs(1);

/// How long one send may take. DynamoDB answers within tens of milliseconds; a send that hangs is better repeated.
const ATTEMPT: Duration = Duration::from_millis(1_500);

/// A first send and two more, with backoff: the SDK's standard.
const ATTEMPTS: u32 = 3;

/// The SDK's behaviour as of this date, so that an update of the SDK alone changes none of it.
fn behavior() -> BehaviorVersion {
    BehaviorVersion::v2026_01_12()
}

/// A client made for this store: the default chain of credentials, 1 s to connect, 1.5 s a send, at most three sends.
///
/// The region is read from `AWS_REGION`, `AWS_DEFAULT_REGION` or the profile. No request is sent. Building a client of
/// the SDK's takes a few milliseconds, so a process makes one.
///
/// ```no_run
/// # async fn example() -> Result<(), idempotency_core::config::ConfigurationError> {
/// let client = idempotency_dynamodb::client::client().await?;
/// let store = idempotency_dynamodb::DynamoDbStore::builder().table("idempotency").client(client).build()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If no region is configured.
pub async fn client() -> Result<Client, ConfigurationError> {
    // Not the SDK's own chain: that ends with EC2's metadata service, which a function waits for in vain.
    let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(ProfileFileRegionProvider::new())
        .region()
        .await;
    client_in(region).await
}

async fn client_in(region: Option<Region>) -> Result<Client, ConfigurationError> {
    let region = region.ok_or_else(no_region)?;
    let config = aws_config::defaults(behavior())
        .region(region)
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts())
        // Requests are small, and the timeout of a send covers a stream that stalls.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .load()
        .await;
    Ok(from_sdk_config(&config))
}

/// A client from a configuration of the caller's; timeouts that it leaves out are this crate's.
pub(crate) fn from_sdk_config(config: &SdkConfig) -> Client {
    let own = config
        .timeout_config()
        .map_or_else(TimeoutConfig::builder, TimeoutConfig::to_builder);
    let timeouts = own.take_unset_from(timeouts().to_builder()).build();
    let mut builder = Builder::from(config).timeout_config(timeouts);
    if config.behavior_version().is_none() {
        builder = builder.behavior_version(behavior());
    }
    Client::from_conf(builder.build())
}

/// What is wrong with a client without a region.
pub(crate) fn no_region() -> ConfigurationError {
    ConfigurationError::new(
        "no AWS region is configured for DynamoDB: set AWS_REGION, such as `eu-west-1`",
    )
}

fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(CONNECT)
        .operation_attempt_timeout(ATTEMPT)
        .build()
}

#[cfg(test)]
mod tests {
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
    async fn our_client_has_explicit_timeouts_and_three_attempts() {
        let client = client_in(Some(Region::from_static("eu-west-1")))
            .await
            .unwrap();
        let timeouts = client.config().timeout_config().unwrap();
        assert_eq!(timeouts.connect_timeout(), Some(CONNECT));
        assert_eq!(timeouts.operation_attempt_timeout(), Some(ATTEMPT));
        assert_eq!(
            client.config().retry_config().unwrap().max_attempts(),
            ATTEMPTS
        );
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
