//! The text of a report.

use std::fmt;

use super::fault::FaultKind;
use super::report::{Row, SafetyReport, SafetyVerdict};

/// Writes the report: the sum, the cases without a fault, the table of points, and the case to fix first.
pub(super) fn write(report: &SafetyReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(failure) = &report.failure {
        return writeln!(f, "retry safety: the check could not run\n\n{failure}");
    }
    let bad = report.unsafe_rows();
    let cases = report.rows.len();
    match bad.len() {
        0 => writeln!(f, "retry safety: all {cases} cases are safe")?,
        bad => writeln!(f, "retry safety: {bad} of {cases} cases are not safe")?,
    }
    writeln!(f)?;
    for row in report.rows.iter().filter(|row| row.fault.is_none()) {
        writeln!(f, "- {}: {}", row.point, row.verdict)?;
    }
    writeln!(f)?;
    table(&report.rows, f)?;
    for note in &report.notes {
        writeln!(f, "\n{note}")?;
    }
    match bad.first() {
        Some(row) => first(row, f),
        None => Ok(()),
    }
}

/// Writes the case to fix first.
fn first(row: &Row, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\nfix first: {}: {}\n", row.case(), row.verdict)?;
    for finding in &row.findings {
        writeln!(f, "- {finding}")?;
    }
    for (index, delivery) in row.deliveries.iter().enumerate() {
        writeln!(f, "- delivery {}: {delivery}", index + 1)?;
    }
    writeln!(f, "\n{}", advice(row.verdict))
}

fn advice(verdict: SafetyVerdict) -> &'static str {
    match verdict {
        SafetyVerdict::Ok | SafetyVerdict::NotReached | SafetyVerdict::Held => "",
        SafetyVerdict::EffectTwice => {
            "A later run repeats the effect. Let the effect recognise a repetition: a token that is the same in every run of the \
             key, or a write with a condition. If the effect is outside of the protected function, move it inside."
        }
        SafetyVerdict::EffectLost => {
            "A delivery ended with a final response before the effect had happened, so nothing makes it up. Do not mark work as \
             done before it is done, do not ignore the error of a request, and await each task that you spawn."
        }
        SafetyVerdict::ResponsesDiffer => {
            "The response depends on the run that made it. Take ids and times from the event, or from what the effect returned. \
             If a difference does no harm, name its place with `ignore`."
        }
        SafetyVerdict::Stuck => {
            "Deliveries end with errors until the sender gives up. Let a later run go on where an earlier one ended."
        }
    }
}

/// The places of a table: the number, the point, one for each fault.
fn table(rows: &[Row], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut points: Vec<(usize, &str)> = Vec::new();
    for row in rows.iter().filter(|row| row.fault.is_some()) {
        if !points.iter().any(|(number, _)| *number == row.number) {
            points.push((row.number, &row.point));
        }
    }
    if points.is_empty() {
        return Ok(());
    }
    let mut lines = vec![header()];
    for (number, point) in points {
        let mut line = vec![number.to_string(), point.to_owned()];
        for fault in FaultKind::ALL {
            let case = rows
                .iter()
                .find(|row| row.number == number && row.fault == Some(fault));
            line.push(case.map(|row| row.verdict.to_string()).unwrap_or_default());
        }
        lines.push(line);
    }
    let columns = lines[0].len();
    let widths: Vec<usize> = (0..columns)
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max())
        .map(Option::unwrap_or_default)
        .collect();
    for (index, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}", width = *width));
        writeln!(f, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
        if index == 0 {
            let rules = widths.iter().map(|width| "-".repeat(*width));
            writeln!(f, "| {} |", rules.collect::<Vec<_>>().join(" | "))?;
        }
    }
    Ok(())
}

fn header() -> Vec<String> {
    let names = ["#", "point"].map(str::to_owned);
    names
        .into_iter()
        .chain(FaultKind::ALL.map(|fault| fault.to_string()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize, fault: Option<FaultKind>, verdict: SafetyVerdict) -> Row {
        Row {
            number,
            point: if number == 0 {
                "delivered again"
            } else {
                "POST /charges"
            }
            .to_owned(),
            fault,
            verdict,
            findings: vec!["`charges` is 2 instead of 1".to_owned()],
            deliveries: vec!["killed".to_owned(), "response".to_owned()],
        }
    }

    fn report(rows: Vec<Row>) -> SafetyReport {
        SafetyReport {
            rows,
            failure: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_worst_case_is_the_one_to_fix_first() {
        let report = report(vec![
            row(0, None, SafetyVerdict::Ok),
            row(1, Some(FaultKind::Refused), SafetyVerdict::EffectLost),
            row(1, Some(FaultKind::CrashAfter), SafetyVerdict::EffectTwice),
            row(1, Some(FaultKind::Takeover), SafetyVerdict::EffectTwice),
        ]);
        let text = report.to_string();
        assert!(
            text.starts_with("retry safety: 3 of 4 cases are not safe\n"),
            "{text}"
        );
        assert!(text.contains("- delivered again: ok\n"), "{text}");
        assert!(
            text.contains("| 1 | POST /charges |              | effect twice | effect lost |"),
            "{text}"
        );
        assert!(
            text.contains("fix first: 1 POST /charges, crash after: effect twice\n"),
            "{text}"
        );
        assert!(
            text.contains("- delivery 1: killed\n- delivery 2: response\n"),
            "{text}"
        );
    }

    #[test]
    fn a_held_key_and_a_point_that_was_not_reached_are_safe() {
        let safe = report(vec![
            row(0, None, SafetyVerdict::Ok),
            row(1, Some(FaultKind::CrashBefore), SafetyVerdict::Held),
            row(1, Some(FaultKind::CrashAfter), SafetyVerdict::NotReached),
        ]);
        assert!(safe.is_safe());
        assert!(
            safe.to_string()
                .starts_with("retry safety: all 3 cases are safe\n")
        );
        assert!(!safe.to_string().contains("fix first"));
        safe.assert_safe();
    }

    #[test]
    fn a_check_that_could_not_run_is_not_safe() {
        let failed = SafetyReport::failed("no thread could be started");
        assert!(!failed.is_safe());
        assert!(failed.to_string().contains("could not run\n\nno thread"));
    }
}
