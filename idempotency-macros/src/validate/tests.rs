//! Tests of the checks of the attribute's settings. `tests/ui/fail` has what is refused: whole texts, and their places.

use idempotency_expression::{Scope, SettingRow};
use quote::ToTokens;

use super::*;
use crate::cases_tests::{cases, validated as checked};

fn validated(arguments: &str, item: &str) -> ValidatedFn {
    checked(arguments, item).ok().unwrap().1
}

const HANDLER: &str =
    "async fn handler(event: LambdaEvent<Order>) -> Result<Receipt, Error> { todo }";

#[test]
fn what_can_be_protected_is_accepted() {
    for case in cases(include_str!("accepted.txt")) {
        let errors = checked(case.arguments, case.item).err();
        assert_eq!(errors, None, "{}", case.line);
    }
}

#[test]
fn a_plain_handler_has_its_settings_and_its_types() {
    let operation = validated("key = \"id\", lease = \"1m\"", HANDLER);
    assert_eq!(operation.constants.len(), 2);
    assert_eq!(operation.returned.response.to_string(), "Receipt");
    assert_eq!(operation.returned.failure.to_string(), "Error");
    let alias = HANDLER.replace("Result<Receipt, Error>", "Reply<u8>");
    let failure = validated("", &alias).returned.failure;
    assert_eq!(failure.to_string(), "Reply < u8 >");
}

#[test]
fn a_pattern_is_matched_in_the_body_and_a_mutable_parameter_keeps_its_name() {
    for (parameter, name) in [
        ("LambdaEvent { payload, .. }", "__event"),
        ("_", "__event"),
        ("ref event", "__event"),
        ("event @ LambdaEvent { .. }", "__event"),
        ("event", "event"),
        ("mut event", "mut event"),
    ] {
        let operation = validated("", &HANDLER.replace("event:", &format!("{parameter}:")));
        let PayloadSource::Event { pattern, .. } = operation.payload else {
            panic!("the payload is an event");
        };
        assert_eq!(pattern.is_some(), name == "__event", "{parameter}");
        let inputs = operation.signature.inputs.to_token_stream().to_string();
        assert!(
            inputs.starts_with(&format!("{name} : LambdaEvent")),
            "{inputs}"
        );
    }
}

#[test]
fn the_context_is_named_or_found_among_the_parameters() {
    let item =
        "async fn f(app: &App, LambdaEvent { payload, .. }: LambdaEvent<u8>) -> Result<u8, E> {}";
    let context = |arguments: &str| match validated(arguments, item).payload {
        PayloadSource::Value { context, .. } => context,
        _ => panic!("the payload is an expression"),
    };
    assert!(
        matches!(context("payload = payload"), ContextSource::Parameters(found) if found.named.len() == 2)
    );
    let named = context("payload = payload, context = app.context");
    assert!(
        matches!(named, ContextSource::Named(named) if named.to_token_stream().to_string() == "& app . context")
    );
}

#[test]
fn the_last_parameter_is_the_record_of_a_batch() {
    for shape in ["sqs", "kinesis", "dynamodb_stream"] {
        let item = "async fn f(app: &App, Order { id, .. }: Order) -> Result<u8, E> {}";
        let PayloadSource::Record { pattern, of } = validated(shape, item).payload else {
            panic!("the payload is a record");
        };
        assert_eq!(pattern.to_token_stream().to_string(), "Order { id , .. }");
        assert_eq!(of.to_token_stream().to_string(), "Order");
    }
}

#[test]
fn each_setting_of_a_shape_is_refused_on_a_plain_function() {
    for (scope, shape) in [(Scope::Http, "http"), (Scope::Batch, "sqs")] {
        for row in SettingRow::of(scope) {
            let errors = checked(&format!("{} = {}", row.name, row.example), HANDLER);
            let errors = errors.err().unwrap().join("\n");
            let written = format!("write `#[idempotent({shape}, {} = ..)]`", row.name);
            assert!(errors.contains(&written), "{errors}");
        }
    }
}
