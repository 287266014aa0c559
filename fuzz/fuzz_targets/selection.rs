//! Any text compiles or is refused, and what compiles is evaluated on any payload. A key that is taken while the event is read is the
//! key that the interpreter takes from the whole event, and a value has the key of its JSON text. The first line of the input is the
//! expression; the rest is the event.
#![no_main]

use idempotency_core::config::{KeyRequired, Settings, Variables};
use idempotency_core::key::{EvaluationError, Expression, HashAlgorithm, Json, Selector};
use idempotency_core::operation::CompiledOperation;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &str| {
    let (text, event) = input.split_once('\n').unwrap_or((input, "null"));
    let expression = match Expression::compile(text) {
        Ok(expression) => expression,
        Err(error) => {
            assert!(error.offset() <= text.len() && !error.to_string().is_empty());
            return;
        }
    };
    let payload = Json::parse(event);
    if let Ok(value) = expression.evaluate(payload.as_ref().unwrap_or(&Json::Null)) {
        let _text = value.to_canonical();
    }
    let settings = Settings {
        key: Some(text.to_owned().into()),
        key_required: Some(KeyRequired::No),
        key_prefix: Some("shop".into()),
        ..Settings::default()
    };
    let Ok(operation) = CompiledOperation::new("charge", &settings, &Variables::default()) else {
        return;
    };
    let found = operation.identify(event, None);
    match payload {
        Err(error) => {
            let found = found.expect_err("the event is not JSON").to_string();
            assert!(found.contains(&error.to_string()));
        }
        Ok(json) => {
            let whole = Selector::new(Some(expression), None, HashAlgorithm::Md5);
            match (whole.key(&json), &found) {
                // Reading less takes less memory and fewer steps.
                (Err(EvaluationError::TooLarge | EvaluationError::TooLong), _) => {}
                (Err(error), Err(found)) => assert!(found.to_string().contains(&error.to_string())),
                (Ok(Some(key)), Ok(found)) => {
                    let id = found.key().expect("the event has a key").as_str();
                    assert_eq!(id, format!("shop#{}", key.digest()));
                    assert!(found.missing_parts().eq(key.missing_parts()));
                }
                (Ok(None), Ok(found)) => assert!(found.bypass().is_some()),
                // One call has less memory than a lone expression.
                (Ok(_), Err(found)) if found.to_string().contains("memory") => {}
                (_, found) => panic!("one of both ways fails: {found:?}"),
            }
        }
    }
    if let Ok(value) = serde_json::from_str::<Value>(event) {
        let written = value.to_string();
        let of_text = operation.identify(&written, None);
        let of_value = operation.identify_value(&value, None);
        match (of_text, of_value) {
            (Ok(of_text), Ok(of_value)) => assert_eq!(of_text, of_value),
            (Err(of_text), Err(of_value)) => assert_eq!(of_text.to_string(), of_value.to_string()),
            // A text needs more memory than its value alone, because the value is read from it.
            (Err(of_text), Ok(_)) => assert!(of_text.to_string().contains("memory")),
            (Ok(_), Err(of_value)) => panic!("the text has a key: {of_value}"),
        }
    }
});
