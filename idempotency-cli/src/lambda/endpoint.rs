//! Where Lambda is.

use aws_config::SdkConfig;
use aws_sdk_dynamodb::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use aws_sdk_dynamodb::error::BoxError;
use aws_types::service_config::ServiceConfigKey;

/// Returns the endpoint of Lambda: `AWS_ENDPOINT_URL_LAMBDA`, `AWS_ENDPOINT_URL`, the same of the profile, or that of the region.
///
/// # Errors
///
/// If the region has none.
pub(super) async fn of(config: &SdkConfig) -> Result<String, BoxError> {
    let key = ServiceConfigKey::builder()
        .service_id("Lambda")
        .env("AWS_ENDPOINT_URL")
        .profile("endpoint_url")
        .build()?;
    let of_service = config
        .service_config()
        .and_then(|services| services.load_config(key));
    let of_all = || config.endpoint_url().map(str::to_owned);
    if let Some(endpoint) = of_service.or_else(of_all) {
        return Ok(endpoint);
    }
    let region = config.region().ok_or("no region is set")?;
    let fips = config.use_fips().unwrap_or_default();
    let dual_stack = config.use_dual_stack().unwrap_or_default();
    of_region(region.as_ref(), fips, dual_stack).await
}

/// Returns the endpoint of Lambda in a region.
///
/// It is that of DynamoDB with the name of the other service: the rules of DynamoDB's SDK know the domain of each partition.
async fn of_region(region: &str, fips: bool, dual_stack: bool) -> Result<String, BoxError> {
    let params = Params::builder()
        .region(region)
        .use_fips(fips)
        .use_dual_stack(dual_stack)
        .build()?;
    let endpoint = DefaultResolver::new().resolve_endpoint(&params).await?;
    let of_lambda = endpoint.url().strip_prefix("https://dynamodb");
    let rest = of_lambda.ok_or_else(|| {
        format!("Lambda has no endpoint in the region `{region}`: set AWS_ENDPOINT_URL_LAMBDA")
    })?;
    Ok(format!("https://lambda{rest}"))
}

/// Returns the URI that invokes a function at this endpoint.
pub(super) fn uri(endpoint: &str, function: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    let mut uri = format!("{endpoint}/2015-03-31/functions/");
    for byte in function.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri.push_str("/invocations");
    uri
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
            let endpoint = of_region(region, fips, dual_stack).await.unwrap();
            assert_eq!(endpoint, expected);
        }
        let error = of_region("local", false, false).await.unwrap_err();
        assert!(
            error.to_string().contains("AWS_ENDPOINT_URL_LAMBDA"),
            "{error}"
        );
    }

    #[test]
    fn a_name_an_alias_and_an_arn_become_one_segment_of_the_path() {
        for (function, segment) in [
            ("charge", "charge"),
            ("charge:live", "charge%3Alive"),
            (
                "arn:aws:lambda:eu-central-1:123456789012:function:charge",
                "arn%3Aaws%3Alambda%3Aeu-central-1%3A123456789012%3Afunction%3Acharge",
            ),
            ("a/b", "a%2Fb"),
        ] {
            let expected = format!("http://127.0.0.1:1/2015-03-31/functions/{segment}/invocations");
            assert_eq!(uri("http://127.0.0.1:1/", function), expected);
            assert_eq!(uri("http://127.0.0.1:1", function), expected);
        }
    }
}
