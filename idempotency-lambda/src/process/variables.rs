//! The process's environment variables, copied at first use.

use std::ffi::OsStr;
use std::sync::OnceLock;

use idempotency_core::config::Variables;

use super::default_store;

static VARIABLES: OnceLock<Variables> = OnceLock::new();

/// Returns the process's variables, as they were at the first call.
pub(crate) fn variables() -> &'static Variables {
    VARIABLES.get_or_init(|| {
        // `vars` panics on a name or value that is not Unicode. Our names are Unicode.
        std::env::vars_os()
            .filter_map(|(name, value)| Some(copied(name.into_string().ok()?, &value)))
            .collect()
    })
}

/// Copies a variable. Of a variable that this framework does not read, only the name is kept: it may be a misspelt one of
/// ours, but its value may be a credential, which does not belong in a static.
fn copied(name: String, value: &OsStr) -> (String, String) {
    let value = if Variables::is_known(&name) || default_store::is_known(&name) {
        // A value that is not Unicode must not count as not set.
        value.to_string_lossy().into_owned()
    } else {
        String::new()
    };
    (name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_another_programs_variable_is_kept() {
        let copied = |name: &str, value: &str| copied(name.to_owned(), value.as_ref()).1;
        assert_eq!(copied("AWS_SECRET_ACCESS_KEY", "s3cr3t"), "");
        assert_eq!(copied("IDEMPOTENT_TOKEN", "s3cr3t"), "");
        assert_eq!(copied("IDEMPOTENCY_LEASE", "1m"), "1m");
        assert_eq!(copied("AWS_LAMBDA_FUNCTION_NAME", "shop"), "shop");
        assert_eq!(copied("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"), "128");
    }

    #[cfg(feature = "dynamodb")]
    #[test]
    fn the_configuration_page_names_the_stores_variables_and_no_unknown_one() {
        let page = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/reference/configuration.md"
        ));
        let is_part_of_a_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let words: Vec<_> = page.split(|letter| !is_part_of_a_name(letter)).collect();
        for name in default_store::variables() {
            assert!(words.contains(&name), "the page does not name {name}");
        }
        for name in words {
            let is_ours = name.starts_with("IDEMPOTENCY_");
            let is_read = Variables::is_known(name) || default_store::is_known(name);
            assert!(is_read || !is_ours, "nothing reads {name}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_not_unicode_does_not_count_as_not_set() {
        use idempotency_core::config::Settings;
        use std::os::unix::ffi::OsStrExt as _;
        let (name, value) = copied("IDEMPOTENCY_LEASE".to_owned(), OsStr::from_bytes(b"1\xff"));
        let variables = Variables::from_iter([(name, value)]);
        assert!(Settings::new().policy(&variables).is_err());
    }
}
