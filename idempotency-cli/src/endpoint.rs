//! Where the services of AWS are.

use aws_config::SdkConfig;
use aws_sdk_dynamodb::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use aws_sdk_dynamodb::error::BoxError;
use aws_types::service_config::ServiceConfigKey;

/// A service of AWS.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    DynamoDb,
    Lambda,
}

impl Service {
    /// Returns the variable of its endpoint.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::DynamoDb => "AWS_ENDPOINT_URL_DYNAMODB",
            Self::Lambda => "AWS_ENDPOINT_URL_LAMBDA",
        }
    }

    /// Returns the endpoint that is set: its variable, `AWS_ENDPOINT_URL`, or the same of the profile.
    ///
    /// # Errors
    ///
    /// If the SDK cannot look for it.
    pub(crate) fn set_endpoint(self, config: &SdkConfig) -> Result<Option<String>, BoxError> {
        let id = match self {
            Self::DynamoDb => "DynamoDB",
            Self::Lambda => "Lambda",
        };
        let key = ServiceConfigKey::builder()
            .service_id(id)
            .env("AWS_ENDPOINT_URL")
            .profile("endpoint_url")
            .build()?;
        let services = config.service_config();
        let of_service = services.and_then(|services| services.load_config(key));
        Ok(of_service.or_else(|| config.endpoint_url().map(str::to_owned)))
    }

    /// Returns the endpoint that is set, or that of the region.
    ///
    /// # Errors
    ///
    /// If the region has none.
    pub(crate) async fn endpoint(self, config: &SdkConfig) -> Result<String, BoxError> {
        if let Some(endpoint) = self.set_endpoint(config)? {
            return Ok(endpoint);
        }
        let region = config.region().ok_or("no region is set")?;
        let fips = config.use_fips().unwrap_or_default();
        let dual_stack = config.use_dual_stack().unwrap_or_default();
        self.of_region(region.as_ref(), fips, dual_stack).await
    }

    /// Returns the endpoint in a region.
    ///
    /// That of Lambda is that of DynamoDB with the name of the other service: the rules of DynamoDB's SDK know the domain of each
    /// partition.
    async fn of_region(
        self,
        region: &str,
        fips: bool,
        dual_stack: bool,
    ) -> Result<String, BoxError> {
        let params = Params::builder()
            .region(region)
            .use_fips(fips)
            .use_dual_stack(dual_stack)
            .build()?;
        let endpoint = DefaultResolver::new().resolve_endpoint(&params).await?;
        if let Self::DynamoDb = self {
            return Ok(endpoint.url().to_owned());
        }
        let rest = endpoint.url().strip_prefix("https://dynamodb");
        let rest = rest.ok_or_else(|| {
            let variable = self.variable();
            format!("Lambda has no endpoint in the region `{region}`: set {variable}")
        })?;
        Ok(format!("https://lambda{rest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_partition_has_its_own_domain() {
        for (region, fips, dual_stack, expected) in [
            (
                "eu-central-1",
                false,
                false,
                "https://lambda.eu-central-1.amazonaws.com",
            ),
            (
                "us-east-1",
                true,
                false,
                "https://lambda-fips.us-east-1.amazonaws.com",
            ),
            ("us-east-1", false, true, "https://lambda.us-east-1.api.aws"),
            (
                "cn-north-1",
                false,
                false,
                "https://lambda.cn-north-1.amazonaws.com.cn",
            ),
            (
                "us-gov-west-1",
                false,
                false,
                "https://lambda.us-gov-west-1.amazonaws.com",
            ),
        ] {
            let endpoint = Service::Lambda
                .of_region(region, fips, dual_stack)
                .await
                .unwrap();
            assert_eq!(endpoint, expected);
        }
        let error = Service::Lambda
            .of_region("local", false, false)
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("AWS_ENDPOINT_URL_LAMBDA"),
            "{error}"
        );
    }
}
