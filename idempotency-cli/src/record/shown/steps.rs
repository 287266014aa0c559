//! Formats the recorded steps of a claim. Their results can contain personal data.

use idempotency_core::key::Json;
use idempotency_core::record::{Data, Field, RecordedSteps};

use super::{described, member, one_line};
use crate::json;

/// Returns the names of the steps in one line, each with the length of its result, or with the result itself.
pub(super) fn line(steps: &Field<RecordedSteps>, with_data: bool) -> Option<String> {
    described(steps, |steps| {
        if steps.is_empty() {
            return "none recorded".to_owned();
        }
        let named = steps.iter().map(|(name, result)| {
            let (name, result) = (one_line(name), result.as_str());
            if with_data {
                format!("{name} = {}", one_line(result))
            } else {
                format!("{name} ({} bytes)", result.len())
            }
        });
        named.collect::<Vec<_>>().join(", ")
    })
}

/// Returns the JSON form: an array of objects. Null if the steps cannot be read.
pub(super) fn to_json(steps: &Field<RecordedSteps>, with_data: bool) -> Option<Json> {
    let step = |(name, result): (&str, &Data)| {
        json::object([
            ("name", Some(json::text(name))),
            (
                "bytes",
                i64::try_from(result.as_str().len()).ok().map(json::number),
            ),
            ("result", with_data.then(|| json::text(result.as_str()))),
        ])
    };
    member(steps, |steps| Json::Array(steps.iter().map(step).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(steps: &[(&str, &str)]) -> Field<RecordedSteps> {
        let steps = steps.iter();
        let steps = steps.map(|(name, result)| ((*name).to_owned(), Data::new(*result)));
        Field::Value(steps.collect())
    }

    fn shown(steps: &Field<RecordedSteps>, with_data: bool) -> (String, String) {
        let json = to_json(steps, with_data).unwrap().to_canonical();
        (line(steps, with_data).unwrap(), json.to_string())
    }

    #[test]
    fn the_names_of_steps_are_shown_and_their_results_only_on_request() {
        let two = steps(&[("charge\u{1b}", "\"s3cr3t\""), ("reserve", "7")]);
        let (line, json) = shown(&two, false);
        assert_eq!(line, "charge  (8 bytes), reserve (1 bytes)");
        assert!(json.contains(r#""name": "reserve""#), "{json}");
        assert!(!json.contains("s3cr3t"), "{json}");
        let (line, json) = shown(&two, true);
        assert_eq!(line, "charge  = \"s3cr3t\", reserve = 7");
        assert!(json.contains("s3cr3t"), "{json}");
    }

    #[test]
    fn a_claim_without_a_recorded_step_differs_from_one_that_cannot_be_read() {
        assert_eq!(
            shown(&steps(&[]), false),
            ("none recorded".into(), "[]".into())
        );
        let (line, json) = shown(&Field::Unreadable, false);
        assert!(line.contains("cannot be read"), "{line}");
        assert_eq!(json, "null");
        assert_eq!(super::line(&Field::Absent, true), None);
    }
}
