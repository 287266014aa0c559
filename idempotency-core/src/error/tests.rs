//! The texts of errors, for operators and for clients.

use super::*;
use ErrorKind as Kind;

use crate::store::{RejectedWrite, Rejection, StoreError, StoreErrorKind};

#[test]
fn the_text_says_whether_the_handler_ran_and_for_which_key() {
    let text = |ran| {
        Error::new(Kind::StoreFailed, "charge")
            .with_key(RecordId::new("charge#1"), "memory")
            .with_handler_ran(ran)
            .to_string()
    };
    for (ran, expected) in [(false, "did not run"), (true, "ran")] {
        let expected = format!("(the handler {expected}; key charge#1; memory)");
        let expected = format!("charge: the store could not be asked {expected}");
        assert_eq!(text(ran), expected);
    }
}

#[test]
fn a_configuration_that_the_handler_found_wrong_says_that_it_ran_and_nothing_else_of_a_call() {
    let error = |ran| {
        Error::new(Kind::Configuration, "charge")
            .with_key(RecordId::new("charge#1"), "memory")
            .with_handler_ran(ran)
    };
    let wrong = "charge: the configuration is wrong";
    assert_eq!(error(false).to_string(), wrong);
    let ran = format!("{wrong} (the handler ran; key charge#1; memory)");
    assert_eq!(error(true).to_string(), ran);
    // The request may have had its effect.
    let unknown = "do not send it again under a new key";
    assert!(error(true).client_message().contains(unknown));
    assert!(!error(false).client_message().contains(unknown));
}

#[test]
fn the_client_message_contains_no_operation_key_store_or_detail() {
    for &kind in Kind::ALL {
        let error = Error::new(kind, "secret.operation")
            .with_key(RecordId::new("secret#key"), "secret table")
            .with_detail("secret detail");
        let message = error.client_message();
        assert!(!message.contains("secret"), "{kind:?}: {message}");
        let words = "table DynamoDB record handler IDEMPOTENCY_ Lambda";
        for word in words.split(' ') {
            assert!(!message.contains(word), "{kind:?}: {message}");
        }
    }
}

#[test]
fn the_client_message_says_what_to_do_and_agrees_with_the_kind() {
    for &kind in Kind::ALL {
        let message = kind.client_message();
        let has = |part| message.contains(part);
        assert!(has(": "), "{kind:?} does not say what to do: {message}");
        let is_a_part = !message.ends_with('.') && !message.starts_with(char::is_uppercase);
        assert!(is_a_part, "{message}");
        if kind.is_retryable() {
            let again = has("send it again") && has("under the same key");
            assert!(again, "{kind:?}: {message}");
        } else {
            // A retry that only waits has the same result.
            assert!(!has("send it again later"), "{kind:?}: {message}");
        }
        // Under a new key, a handler that may have run would run again.
        let may_have_run = matches!(
            kind,
            Kind::Unresolved
                | Kind::StepRefused
                | Kind::StepTypeChanged
                | Kind::StepNoTimeLeft
                | Kind::StepNotRecorded
                | Kind::StepNotUndone
                | Kind::CorruptRecord
                | Kind::ResponseTypeChanged
                | Kind::ResponseUnavailable
                | Kind::ResponseNotSerializable
                | Kind::LostOwnership
                | Kind::CompletionUnknown
                | Kind::Internal
        );
        if may_have_run {
            let keeps = has("the same key") || has("do not send it again under a new key");
            assert!(keeps, "{kind:?}: {message}");
        }
    }
}

#[test]
fn the_errors_page_has_a_section_for_each_kind_that_agrees_on_retries() {
    let page = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/reference/errors.md"
    ));
    let sections: Vec<_> = page.split("\n### ").skip(1).collect();
    assert_eq!(sections.len(), Kind::ALL.len(), "one section for each kind");
    for &kind in Kind::ALL {
        let heading = format!("{}\n", kind.name());
        let section = sections.iter().find(|text| text.starts_with(&heading));
        let section = section.unwrap_or_else(|| panic!("there is no section {}", kind.name()));
        let retry = if kind.is_retryable() { "yes" } else { "no" };
        assert!(section.contains(&format!("Retry: {retry}")), "{section}");
    }
}

#[test]
fn the_rejected_writes_are_found_through_the_store_error_that_is_the_cause() {
    let rejected = RejectedWrite::new(1, "put into table `orders`", RejectedWrite::CONDITION);
    let rejection = Rejection::new(2, vec![rejected.with_item("s3cr3t")]);
    let cause = StoreError::new(StoreErrorKind::Rejected, rejection.to_string());
    let error =
        Error::new(Kind::TransactionRejected, "transfer").with_source(cause.with_source(rejection));
    let found = error.rejection().unwrap();
    assert_eq!(found.write(1).unwrap().item::<&str>(), Some(&"s3cr3t"));
    assert!(found.write(0).is_none());
    assert!(!format!("{error:?} {error}").contains("s3cr3t"));
    let without_a_cause = Error::new(Kind::TransactionRejected, "transfer");
    assert!(without_a_cause.rejection().is_none());
}

#[test]
fn an_error_of_which_it_is_not_known_whether_a_send_was_applied_has_no_rejection() {
    for (kind, expected) in [
        (Kind::TransactionRejected, true),
        (Kind::CompletionUnknown, false),
        (Kind::LostOwnership, false),
    ] {
        let rejected = RejectedWrite::new(0, "put", RejectedWrite::CONDITION);
        let error = Error::new(kind, "transfer").with_source(Rejection::new(1, vec![rejected]));
        assert_eq!(error.rejection().is_some(), expected, "{kind:?}");
    }
}
