//! The texts of errors, for operators and for clients.

use super::*;
use ErrorKind as Kind;

use crate::store::{RejectedWrite, Rejection, StoreError, StoreErrorKind};

/// Makes the list of all kinds. A kind that is missing here does not compile.
macro_rules! all {
    ($($kind:ident),+ $(,)?) => {
        const ALL: &[ErrorKind] = &[$(Kind::$kind),+];
        const _: fn(ErrorKind) = |kind| match kind {
            $(Kind::$kind => {})+
        };
    };
}

all![
    AlreadyInProgress,
    PayloadMismatch,
    KeyMissing,
    InvalidPayload,
    ExpressionFailed,
    Unresolved,
    CorruptRecord,
    ResponseTypeChanged,
    Contended,
    NoTimeLeft,
    ResponseUnavailable,
    ResponseNotSerializable,
    LostOwnership,
    CompletionUnknown,
    TransactionRejected,
    StoreFailed,
    StepRefused,
    StepNoTimeLeft,
    StepNotRecorded,
    StepTypeChanged,
    Configuration,
    Environment,
    UnknownInvocation,
    Internal,
];

#[test]
fn the_text_says_whether_the_handler_ran_and_for_which_key() {
    let text = |ran| {
        Error::new(Kind::StoreFailed, "charge")
            .with_key(RecordId::new("charge#1"), "memory")
            .with_handler_ran(ran)
            .to_string()
    };
    assert_eq!(
        text(false),
        "charge: the store could not be asked (the handler did not run; key charge#1; memory)"
    );
    assert_eq!(
        text(true),
        "charge: the store could not be asked (the handler ran; key charge#1; memory)"
    );
}

#[test]
fn a_kind_is_retryable_if_a_retry_can_have_another_result() {
    let is_retryable = |kind: &&ErrorKind| kind.is_retryable();
    let retryable: Vec<_> = ALL.iter().filter(is_retryable).copied().collect();
    assert_eq!(
        retryable,
        [
            Kind::AlreadyInProgress,
            Kind::Contended,
            Kind::NoTimeLeft,
            Kind::LostOwnership,
            Kind::CompletionUnknown,
            Kind::StoreFailed,
            Kind::StepNoTimeLeft,
            Kind::StepNotRecorded,
        ]
    );
}

#[test]
fn every_kind_has_a_name_of_its_own_that_is_its_rust_name() {
    for &kind in ALL {
        assert_eq!(kind.name(), format!("Idempotency{kind:?}"));
    }
}

#[test]
fn the_client_message_contains_no_operation_key_store_or_detail() {
    for &kind in ALL {
        let error = Error::new(kind, "secret.operation")
            .with_key(RecordId::new("secret#key"), "secret table")
            .with_detail("secret detail");
        let message = error.client_message();
        assert!(!message.contains("secret"), "{kind:?}: {message}");
        for word in [
            "table",
            "DynamoDB",
            "record",
            "handler",
            "IDEMPOTENCY_",
            "Lambda",
        ] {
            assert!(!message.contains(word), "{kind:?}: {message}");
        }
    }
}

#[test]
fn the_client_message_says_what_to_do_and_agrees_with_the_kind() {
    for &kind in ALL {
        let message = kind.client_message();
        assert!(
            message.contains(": "),
            "{kind:?} does not say what to do: {message}"
        );
        assert!(
            !message.ends_with('.') && !message.starts_with(char::is_uppercase),
            "{message}"
        );
        if kind.is_retryable() {
            assert!(
                message.contains("send it again") && message.contains("under the same key"),
                "{kind:?}: {message}"
            );
        } else {
            // A retry that only waits has the same result.
            assert!(
                !message.contains("send it again later"),
                "{kind:?}: {message}"
            );
        }
        // A new key would run again what may have run.
        let may_have_run = matches!(
            kind,
            Kind::Unresolved
                | Kind::CorruptRecord
                | Kind::ResponseTypeChanged
                | Kind::ResponseUnavailable
                | Kind::ResponseNotSerializable
                | Kind::LostOwnership
                | Kind::CompletionUnknown
                | Kind::Internal
        );
        if may_have_run {
            assert!(
                message.contains("the same key")
                    || message.contains("do not send it again under a new key"),
                "{kind:?}: {message}"
            );
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
    assert_eq!(sections.len(), ALL.len(), "one section for each kind");
    for &kind in ALL {
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
    let write = error
        .rejection()
        .and_then(|rejection| rejection.write(1))
        .unwrap();
    assert_eq!(write.item::<&str>(), Some(&"s3cr3t"));
    assert!(error.rejection().unwrap().write(0).is_none());
    assert!(!format!("{error:?} {error}").contains("s3cr3t"));
    assert!(
        Error::new(Kind::TransactionRejected, "transfer")
            .rejection()
            .is_none()
    );
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
