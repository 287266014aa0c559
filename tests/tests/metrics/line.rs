//! A line in the embedded metric format, checked against AWS's schema and the rules that the schema does not have.

use std::sync::LazyLock;

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use serde_json::Value;

/// The schema. Its `$id`s are those of draft 6 and before, and it names no draft.
static SCHEMA: LazyLock<(Schemas, SchemaIndex)> = LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("emf-schema.json")).unwrap();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.set_default_draft(Draft::V4);
    compiler.add_resource("emf.json", schema).unwrap();
    let index = compiler.compile("emf.json", &mut schemas).unwrap();
    (schemas, index)
});

/// A line that is valid.
#[derive(Clone, Debug)]
pub(crate) struct Line(Value);

impl Line {
    /// Reads a line.
    ///
    /// # Panics
    ///
    /// If it is not one whole JSON document, or not in the format.
    pub(crate) fn read(text: &str) -> Self {
        let line =
            Self(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")));
        if let Err(fault) = check(&line.0) {
            panic!("{fault}: {text}");
        }
        assert!(text.len() < 256 * 1024, "a log event has at most 256 KB");
        line
    }

    pub(crate) fn operation(&self) -> &str {
        self.0["Operation"].as_str().unwrap()
    }

    pub(crate) fn request_id(&self) -> Option<&str> {
        self.0["RequestId"].as_str()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.0["_aws"]["CloudWatchMetrics"][0]["Namespace"]
            .as_str()
            .unwrap()
    }

    pub(crate) fn function(&self) -> &str {
        self.0["Function"].as_str().unwrap()
    }

    /// Returns the counts, in the order of their names.
    pub(crate) fn counts(&self) -> Vec<(&str, u64)> {
        let metrics = self.0.as_object().unwrap().iter();
        metrics
            .filter_map(|(name, value)| Some((name.as_str(), value.as_u64()?)))
            .collect()
    }

    /// Returns the number of values of a latency.
    pub(crate) fn values(&self, latency: &str) -> usize {
        self.0[latency].as_array().map_or(0, Vec::len)
    }
}

/// Checks a document against the schema, and against the text of the specification: each reference has a target of the right
/// type, at most 100 metrics and 100 values, at most 30 dimensions.
fn check(document: &Value) -> Result<(), String> {
    let (schemas, schema) = &*SCHEMA;
    schemas
        .validate(document, *schema)
        .map_err(|error| error.to_string())?;
    for directive in document["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
        for set in directive["Dimensions"].as_array().unwrap() {
            let set = set.as_array().unwrap();
            if set.len() > 30 {
                return Err("more than 30 dimensions".to_owned());
            }
            for name in set {
                let value = document[name.as_str().unwrap()]
                    .as_str()
                    .unwrap_or_default();
                if value.trim().is_empty() || value.len() > 1024 || !value.is_ascii() {
                    return Err(format!("the dimension {name} is `{value}`"));
                }
            }
        }
        let metrics = directive["Metrics"].as_array().unwrap();
        if metrics.is_empty() || metrics.len() > 100 {
            return Err(format!("{} metrics", metrics.len()));
        }
        for metric in metrics {
            let value = &document[metric["Name"].as_str().unwrap()];
            let is_list = value.as_array().is_some_and(|values| {
                (1..=100).contains(&values.len()) && values.iter().all(Value::is_number)
            });
            if !value.is_number() && !is_list {
                return Err(format!("{metric} has the value {value}"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_document_outside_the_format_is_found() {
    let good = serde_json::json!({
        "_aws": { "Timestamp": 1, "CloudWatchMetrics": [{
            "Namespace": "Shop", "Dimensions": [["Function"]], "Metrics": [{ "Name": "Executed", "Unit": "Count" }]
        }] },
        "Function": "f",
        "Executed": [1],
    });
    assert_eq!(check(&good), Ok(()));
    let changes: [(&str, Value); 6] = [
        ("/_aws/Timestamp", "now".into()),
        ("/_aws/CloudWatchMetrics/0/Namespace", "".into()),
        ("/_aws/CloudWatchMetrics/0/Metrics/0/Unit", "Times".into()),
        ("/_aws/CloudWatchMetrics/0/Metrics", Value::Array(vec![])),
        ("/Function", "é".into()),
        ("/Executed", vec![1; 101].into()),
    ];
    for (place, value) in changes {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        assert!(check(&bad).is_err(), "{place}");
    }
}
