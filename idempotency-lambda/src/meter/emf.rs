//! The embedded metric format: JSON lines from which CloudWatch makes metrics.

use idempotency_core::time::EpochMillis;
use serde_json::{Map, Value, json};

use super::tally::Tally;

/// The largest number of values that one line may have for a metric.
const VALUES: usize = 100;

/// The longest value of a dimension, in characters.
const LONGEST_DIMENSION: usize = 1024;

/// The facts that all lines of a process share.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) namespace: String,
    /// The name of the Lambda function.
    pub(crate) function: String,
}

impl Format {
    /// Returns the lines of an operation: one, or more if a metric has more values than a line may have, or none if nothing was
    /// counted. Each ends with a line break.
    pub(super) fn lines(
        &self,
        tally: &Tally,
        request_id: Option<&str>,
        now: EpochMillis,
    ) -> impl Iterator<Item = String> {
        let lines = tally.store.len().max(tally.handler.len()).div_ceil(VALUES);
        (0..lines.max(usize::from(!tally.counts.is_empty()))).map(move |line| {
            // The counts are in the first line only, so that they are not counted twice.
            let counts = if line == 0 { &tally.counts[..] } else { &[] };
            let counts = counts.iter().map(|(name, n)| (*name, "Count", json!(n)));
            let latencies = [
                ("StoreLatency", part(&tally.store, line)),
                ("HandlerLatency", part(&tally.handler, line)),
            ]
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| (name, "Milliseconds", json!(values)));
            let mut text = self
                .document(tally, request_id, now, counts.chain(latencies))
                .to_string();
            text.push('\n');
            text
        })
    }

    fn document<'a>(
        &self,
        tally: &Tally,
        request_id: Option<&str>,
        now: EpochMillis,
        metrics: impl Iterator<Item = (&'a str, &'a str, Value)>,
    ) -> Value {
        let mut document = Map::new();
        let mut definitions = Vec::new();
        for (name, unit, value) in metrics {
            definitions.push(json!({ "Name": name, "Unit": unit }));
            document.insert(name.to_owned(), value);
        }
        let directive = json!({
            "Namespace": self.namespace,
            "Dimensions": [["Function", "Operation"]],
            "Metrics": definitions,
        });
        let aws = json!({ "Timestamp": now.get(), "CloudWatchMetrics": [directive] });
        document.insert("_aws".to_owned(), aws);
        document.insert("Function".to_owned(), json!(dimension(&self.function)));
        let operation = operation(&tally.operation, &self.function);
        document.insert("Operation".to_owned(), json!(dimension(&operation)));
        if let Some(id) = request_id {
            // A property, which a search of the logs finds. As a dimension it would make a metric for each request.
            document.insert("RequestId".to_owned(), json!(id));
        }
        Value::Object(document)
    }
}

/// Returns the values that belong to a line.
fn part(values: &[u64], line: usize) -> &[u64] {
    values.chunks(VALUES).nth(line).unwrap_or_default()
}

/// Returns the operation without the name of the function, so that it is the same in every stack. The function is a dimension of its own.
///
/// A call that ends before its prefix is known has a path instead. The parts of the path are joined as in a prefix.
fn operation(name: &str, function: &str) -> String {
    let own = name.strip_prefix(function);
    let own = own.and_then(|rest| rest.strip_prefix('.'));
    own.unwrap_or(name).replace("::", ".")
}

/// Returns a value that CloudWatch accepts for a dimension.
fn dimension(value: &str) -> String {
    let accepted = |at: usize, c: char| (c.is_ascii_graphic() || c == ' ') && (at > 0 || c != ':');
    let letters = value.chars().take(LONGEST_DIMENSION).enumerate();
    let value: String = letters
        .map(|(at, c)| if accepted(at, c) { c } else { '_' })
        .collect();
    if value.trim().is_empty() {
        "_".to_owned()
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format() -> Format {
        Format {
            namespace: "Shop".to_owned(),
            function: "payments-1X".to_owned(),
        }
    }

    fn lines(tally: &Tally) -> Vec<Value> {
        let format = format();
        let lines = format.lines(tally, None, EpochMillis::new(0));
        lines
            .map(|line| serde_json::from_str(&line).unwrap())
            .collect()
    }

    #[test]
    fn a_line_has_the_metrics_as_members_and_their_definitions() {
        let tally = Tally {
            counts: vec![("Executed", 2), ("TakenOver", 1)],
            store: vec![7, 9],
            ..Tally::new("payments-1X.shop.charge")
        };
        let lines: Vec<_> = format()
            .lines(&tally, Some("r-1"), EpochMillis::new(1_700_000_000_000))
            .collect();
        let expected = concat!(
            r#"{"Executed":2,"Function":"payments-1X","Operation":"shop.charge","RequestId":"r-1","StoreLatency":[7,9],"#,
            r#""TakenOver":1,"_aws":{"CloudWatchMetrics":[{"Dimensions":[["Function","Operation"]],"Metrics":["#,
            r#"{"Name":"Executed","Unit":"Count"},{"Name":"TakenOver","Unit":"Count"},"#,
            r#"{"Name":"StoreLatency","Unit":"Milliseconds"}],"Namespace":"Shop"}],"Timestamp":1700000000000}}"#,
            "\n"
        );
        assert_eq!(lines, [expected]);
    }

    #[test]
    fn more_values_than_a_line_may_have_go_into_further_lines_and_nothing_is_counted_twice() {
        let tally = Tally {
            counts: vec![("Executed", 250)],
            store: (0..250).collect(),
            handler: (0..101).collect(),
            ..Tally::new("charge")
        };
        let lines = lines(&tally);
        let lengths = |name: &str| -> Vec<_> {
            lines
                .iter()
                .map(|line| line[name].as_array().map_or(0, Vec::len))
                .collect()
        };
        assert_eq!(lengths("StoreLatency"), [100, 100, 50]);
        assert_eq!(lengths("HandlerLatency"), [100, 1, 0]);
        let counts: Vec<_> = lines
            .iter()
            .filter_map(|line| line.get("Executed"))
            .collect();
        assert_eq!(counts, [&json!(250)]);
        let defined = &lines[2]["_aws"]["CloudWatchMetrics"][0]["Metrics"];
        assert_eq!(defined.as_array().map(Vec::len), Some(1), "{defined}");
    }

    #[test]
    fn an_operation_that_counted_nothing_has_no_line() {
        let mut tally = Tally::new("charge");
        tally.count("Undecodable", 0);
        assert!(lines(&tally).is_empty());
        tally.count("Undecodable", 2);
        assert_eq!(lines(&tally).len(), 1);
    }

    #[test]
    fn the_operation_is_the_same_in_every_stack() {
        for (name, expected) in [
            ("payments-1X.shop.charge", "shop.charge"),
            ("payments-1Xy.shop.charge", "payments-1Xy.shop.charge"),
            ("payments", "payments"),
            ("shop::charge", "shop.charge"),
        ] {
            assert_eq!(operation(name, "payments-1X"), expected);
        }
    }

    #[test]
    fn a_dimension_has_only_what_cloudwatch_accepts() {
        assert_eq!(dimension("zahlung.für\n"), "zahlung.f_r_");
        assert_eq!(dimension(":shop"), "_shop");
        assert_eq!(dimension("shop:eu"), "shop:eu");
        assert_eq!(dimension("  "), "_");
        assert_eq!(dimension(&"é".repeat(2_000)).len(), LONGEST_DIMENSION);
    }
}
