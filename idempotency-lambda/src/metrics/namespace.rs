//! The check of a namespace against the rules of CloudWatch.

use idempotency_core::config::ConfigurationError;

/// The longest namespace, in characters.
const LONGEST: usize = 255;

/// Checks a namespace of metrics.
///
/// # Errors
///
/// If CloudWatch would ignore its metrics. It would report that nowhere in the function.
pub(super) fn checked(namespace: String) -> Result<String, ConfigurationError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || " ._-/#:".contains(c);
    let remedy = if namespace.trim().is_empty() {
        "write a name, such as `Shop`"
    } else if namespace.chars().count() > LONGEST {
        "write at most 255 characters"
    } else if !namespace.chars().all(allowed) {
        "write letters without accents, digits, spaces and `.`, `-`, `_`, `/`, `#`, `:` only"
    } else if namespace.starts_with(':') {
        "write another first character than `:`"
    } else if namespace.starts_with("AWS/") {
        "write another name: `AWS/` is reserved for AWS"
    } else {
        return Ok(namespace);
    };
    Err(ConfigurationError::value(
        "the namespace of the metrics",
        &namespace,
        remedy,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_cloudwatch_would_ignore_is_refused_with_the_rule() {
        for (namespace, says) in [
            ("", "write a name"),
            ("  ", "write a name"),
            ("Geschäft", "without accents"),
            ("Shop\n", "without accents"),
            (":Shop", "first character"),
            ("AWS/Lambda", "reserved"),
            (&"x".repeat(256), "at most 255"),
        ] {
            let error = checked(namespace.to_owned()).unwrap_err().to_string();
            assert!(
                error.starts_with("the namespace of the metrics is `"),
                "{error}"
            );
            assert!(error.contains(says), "{error}");
        }
        for namespace in [
            "Shop",
            "shop/payments-v2.1_#:",
            "Web Shop",
            &"x".repeat(255),
        ] {
            assert_eq!(checked(namespace.to_owned()).as_deref(), Ok(namespace));
        }
    }
}
