//! What an error says about credentials that could not be loaded: the profile, the cause, and what to do.

use std::error::Error as StdError;

use aws_config::meta::ProviderChainError;
use aws_credential_types::provider::error::CredentialsError;
use dynamodb_lean_client::sdk::chain;

use crate::table::TableRef;

/// The most characters of a cause that an error quotes. A cause can have what a `credential_process` wrote to its standard error.
const MAX_CAUSE: usize = 400;

impl TableRef {
    /// Returns the text for credentials that could not be loaded. `error` is that of the client, `profile` the value of `AWS_PROFILE`.
    pub(super) fn no_credentials(
        &self,
        error: &(dyn StdError + 'static),
        profile: Option<&str>,
        timed_out: bool,
    ) -> String {
        let start = format!("there are no credentials for {self}");
        let role = "give the function a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";
        let too_long = || "they took longer than a request may".to_owned();
        let cause = cause(error).or_else(|| timed_out.then(too_long));
        let named = match (profile, &cause) {
            (Some(profile), _) => format!("`{profile}` (AWS_PROFILE)"),
            (None, Some(cause)) if is_of_profile(cause) => "`default`".to_owned(),
            (None, Some(cause)) => return format!("{start}: {cause}: {role}"),
            (None, None) => return format!("{start}: {role}"),
        };
        let profile = profile.unwrap_or("default");
        let cause = cause.unwrap_or_else(|| {
            "no file of settings has the profile, or it has no credentials".to_owned()
        });
        let says = |part: &str| cause.contains(part);
        let remedy = if says("cargo feature") {
            "enable the feature `profiles` of idempotency-lambda or idempotency-dynamodb".to_owned()
        } else if says("external process") {
            "run the command of its `credential_process`, and correct it".to_owned()
        } else if says("Login token") || says("login/cache") {
            format!("sign in with `aws login --profile {profile}`")
        } else if says("SSO") || says("access token") || says("sso/cache") {
            format!("sign in with `aws sso login --profile {profile}`")
        } else {
            "correct the profile, sign in to it, or set AWS_PROFILE to another one".to_owned()
        };
        format!("{start} from the profile {named}: {cause}: {remedy}")
    }
}

/// Returns true if the cause is about a profile.
fn is_of_profile(cause: &str) -> bool {
    let words = [
        "profile",
        "SSO",
        "Login",
        "login/cache",
        "access token",
        "cargo feature",
        "external process",
    ];
    words.iter().any(|word| cause.contains(word))
}

/// Returns why the profile, or another source that exists, gave no credentials. `None` if there is no source.
fn cause(error: &(dyn StdError + 'static)) -> Option<String> {
    let sources = chain(error).find_map(|error| {
        let sources = error.downcast_ref::<ProviderChainError<CredentialsError>>()?;
        Some(sources.attempts())
    });
    // The other sources say that they are not there.
    let failed: &(dyn StdError + 'static) = match sources {
        Some(sources) => sources.iter().find(|it| it.name() == "Profile")?.error(),
        None => chain(error).find(|error| error.is::<CredentialsError>())?,
    };
    // The texts of this type are general; the one of a timeout is the cause.
    let is_general = |error: &&(dyn StdError + 'static)| {
        error
            .downcast_ref()
            .is_some_and(|error| !matches!(error, CredentialsError::ProviderTimedOut(_)))
    };
    let texts = chain(failed).filter(|error| !is_general(error));
    let texts: Vec<_> = texts.map(ToString::to_string).collect();
    let text = texts.join(": ").replace(char::is_control, " ");
    let words: Vec<_> = text.split_whitespace().collect();
    let text: String = words.join(" ").chars().take(MAX_CAUSE).collect();
    let text = text.trim_start_matches("ProfileFile provider could not be built: ");
    let text = text.trim_end_matches(['.', ':', ' ']);
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::table::tests::table;

    const ROLE: &str = "give the function a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";

    fn says(error: &CredentialsError, profile: Option<&str>, timed_out: bool, expected: &str) {
        let text = table().no_credentials(error, profile, timed_out);
        let start = "there are no credentials for DynamoDB table `payments` in eu-west-1";
        assert_eq!(text, format!("{start}{expected}"));
    }

    #[test]
    fn each_cause_has_its_remedy() {
        let correct = "correct the profile, sign in to it, or set AWS_PROFILE to another one";
        let feature = "enable the feature `profiles` of idempotency-lambda or idempotency-dynamodb";
        let run = "run the command of its `credential_process`, and correct it";
        for (cause, remedy) in [
            ("the profile has no keys", correct),
            ("cargo feature x is off", feature),
            ("external process: no", run),
            (
                "Login token: no",
                "sign in with `aws login --profile default`",
            ),
            (
                "no login/cache/a",
                "sign in with `aws login --profile default`",
            ),
            (
                "the SSO ended",
                "sign in with `aws sso login --profile default`",
            ),
            (
                "no access token",
                "sign in with `aws sso login --profile default`",
            ),
        ] {
            let error = CredentialsError::not_loaded(cause);
            let expected = format!(" from the profile `default`: {cause}: {remedy}");
            says(&error, None, false, &expected);
            let expected = expected.replace("`default`", "`shop` (AWS_PROFILE)");
            let expected = expected.replace("default", "shop");
            says(&error, Some("shop"), false, &expected);
        }
        let error = CredentialsError::not_loaded("no sso/cache/a");
        let expected = " from the profile `shop` (AWS_PROFILE): no sso/cache/a: sign in with `aws sso login --profile shop`";
        says(&error, Some("shop"), false, expected);
    }

    #[test]
    fn a_cause_that_is_of_no_profile_or_not_known_asks_for_a_role() {
        let deleted = CredentialsError::not_loaded("the role\n was deleted. ");
        says(
            &deleted,
            None,
            false,
            &format!(": the role was deleted: {ROLE}"),
        );
        let unknown = CredentialsError::not_loaded_no_source();
        says(&unknown, None, false, &format!(": {ROLE}"));
        let expected = format!(": they took longer than a request may: {ROLE}");
        says(&unknown, None, true, &expected);
        let nothing = "no file of settings has the profile, or it has no credentials";
        let expected = format!(
            " from the profile `shop` (AWS_PROFILE): {nothing}: correct the profile, sign in to it, or set AWS_PROFILE to another one"
        );
        says(&unknown, Some("shop"), false, &expected);
        // The text of a timeout is the cause, and no other text of this type.
        let late = CredentialsError::provider_timed_out(Duration::from_secs(5));
        says(&late, None, true, &format!(": {late}: {ROLE}"));
    }
}
