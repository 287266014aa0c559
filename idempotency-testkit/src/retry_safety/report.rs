//! What a check found, and its text.

use std::fmt;

use super::gate::FaultKind;

/// The verdict on one case: a fault at a point.
///
/// The order is that of a report: the worst comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SafetyVerdict {
    /// Each effect happened once, and all responses are equal.
    Ok,
    /// The key waits for an operator, as `on_timeout = "hold"` asks. No effect happened twice.
    Held,
    /// The fault was not played: the run did not come to this point again, or an effect happens where no fault can fall. So
    /// nothing is known of this case, and it does not count as safe.
    NotReached,
    /// No delivery got a final response.
    Stuck,
    /// Two responses of one key differ.
    ResponsesDiffer,
    /// An effect happened less often than in a faultless run, and the sender has a final response.
    EffectLost,
    /// Events of different operations have one key, or an event with another content was not refused.
    WrongKey,
    /// An effect happened more often than in a faultless run.
    EffectTwice,
}

impl SafetyVerdict {
    /// Returns true if a function with this verdict can be retried: no effect is lost, none happens twice, and every sender gets
    /// the same response in the end.
    pub(super) fn is_safe(self) -> bool {
        matches!(self, Self::Ok | Self::Held)
    }
}

/// Writes the words of the table.
impl fmt::Display for SafetyVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::NotReached => "not reached",
            Self::Held => "held",
            Self::Stuck => "stuck",
            Self::ResponsesDiffer => "responses differ",
            Self::EffectLost => "effect lost",
            Self::WrongKey => "wrong key",
            Self::EffectTwice => "effect twice",
        })
    }
}

/// One case, and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The number of the point in a report, from 1; 0 for a case without a fault.
    pub number: usize,
    /// The point, such as `POST /charges` or `await 1 after PutItem idempotency`.
    pub point: String,
    /// What happened there, such as `crash after`: a column of the report. `None` for a case without a fault, such as a second delivery.
    pub fault: Option<&'static str>,
    /// The verdict.
    pub verdict: SafetyVerdict,
    /// What was found, as sentences.
    pub findings: Vec<String>,
    /// How each delivery ended for its sender, in the order in which they started.
    pub(super) deliveries: Vec<String>,
}

impl Row {
    /// Returns the name of the case, such as `1 POST /charges, crash after`.
    pub(super) fn case(&self) -> String {
        match self.fault {
            Some(fault) => format!("{} {}, {fault}", self.number, self.point),
            None => self.point.clone(),
        }
    }
}

/// What a check found: a verdict for each case. `Display` writes it as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a report does nothing by itself: call `assert_safe`"]
pub struct SafetyReport {
    pub(super) rows: Vec<Row>,
    /// Why the check could not run.
    pub(super) failure: Option<String>,
    /// What a reader must know beside the table.
    pub(super) notes: Vec<String>,
    /// The cases at a wait for a socket that no later run had.
    pub(super) unplayed: Vec<String>,
    /// What the check did not look at.
    pub(super) unseen: Vec<String>,
}

impl SafetyReport {
    pub(super) fn empty() -> Self {
        Self {
            rows: Vec::new(),
            failure: None,
            notes: Vec::new(),
            unplayed: Vec::new(),
            unseen: Vec::new(),
        }
    }

    pub(super) fn failed(why: impl fmt::Display) -> Self {
        let failure = Some(why.to_string());
        Self {
            failure,
            ..Self::empty()
        }
    }

    /// Returns all cases, in the order of the run.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the cases that are not safe, the worst first. Those that were not reached come last.
    pub fn unsafe_rows(&self) -> Vec<&Row> {
        let mut rows: Vec<_> = self
            .rows
            .iter()
            .filter(|row| !row.verdict.is_safe())
            .collect();
        // The sort keeps the order of the run among equal verdicts.
        rows.sort_by_key(|row| std::cmp::Reverse(row.verdict));
        rows
    }

    /// Returns true if the check ran, every case was reached, and every case is safe. A held key is safe: the framework refuses to
    /// guess.
    ///
    /// A wait for a socket of a [provider](super::RetrySafety::provider) may not come again, as the machine decides about it. Such
    /// a wait is no case; the report counts and names it.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.failure.is_none() && self.rows.iter().all(|row| row.verdict.is_safe())
    }

    /// Returns why the check could not run, if it could not.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Ends the test unless every case is safe. The message is the report, with the case to fix first.
    ///
    /// # Panics
    ///
    /// If a case is not safe or was not reached, or if the check could not run.
    #[track_caller]
    pub fn assert_safe(&self) {
        assert!(
            self.is_safe(),
            "the function is not proven safe to retry\n\n{self}"
        );
    }
}

impl fmt::Display for SafetyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, f)
    }
}

/// Writes the report: the sum, the cases without a fault, the table of points, and the case to fix first.
fn write(report: &SafetyReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let Some(failure) = &report.failure {
        return writeln!(f, "retry safety: the check could not run\n\n{failure}");
    }
    let bad = report.unsafe_rows();
    let cases = report.rows.len();
    let is_not_reached = |row: &&&Row| row.verdict == SafetyVerdict::NotReached;
    let not_reached = bad.iter().filter(is_not_reached).count();
    write!(f, "retry safety: ")?;
    match (bad.len() - not_reached, not_reached) {
        (0, 0) => write!(f, "all {cases} cases are safe")?,
        (bad, 0) => write!(f, "{bad} of {cases} cases are not safe")?,
        (0, _) => write!(
            f,
            "not proven, {not_reached} of {cases} cases were not reached"
        )?,
        (bad, _) => write!(
            f,
            "{bad} of {cases} cases are not safe, and {not_reached} were not reached"
        )?,
    }
    if !report.unplayed.is_empty() {
        write!(f, "; {} more could not be played", report.unplayed.len())?;
    }
    if bad.is_empty() && !report.unseen.is_empty() {
        write!(f, "; not looked at: {}, see below", report.unseen.len())?;
    }
    writeln!(f, "\n")?;
    for row in report.rows.iter().filter(|row| row.fault.is_none()) {
        writeln!(f, "- {}: {}", row.point, row.verdict)?;
    }
    writeln!(f)?;
    table(&report.rows, f)?;
    for note in &report.notes {
        writeln!(f, "\n{note}")?;
    }
    for (index, row) in causes(&bad).into_iter().enumerate() {
        explain(if index == 0 { "fix first" } else { "then" }, row, f)?;
    }
    if !report.unplayed.is_empty() {
        writeln!(
            f,
            "\ncould not be played, as no later run had this wait for a socket:\n"
        )?;
        for case in &report.unplayed {
            writeln!(f, "- {case}")?;
        }
    }
    if !report.unseen.is_empty() {
        writeln!(f, "\nnot looked at:\n")?;
        for unseen in &report.unseen {
            writeln!(f, "- {unseen}")?;
        }
    }
    Ok(())
}

/// Returns the cases to explain: each without a fault, and for the others the first of each verdict.
fn causes<'a>(bad: &[&'a Row]) -> Vec<&'a Row> {
    let mut causes: Vec<&Row> = Vec::new();
    for row in bad {
        let is_known = |known: &&Row| known.verdict == row.verdict && known.fault.is_some();
        if row.fault.is_none() || !causes.iter().any(is_known) {
            causes.push(row);
        }
    }
    causes
}

/// Writes what happened in a case, and what to do.
fn explain(heading: &str, row: &Row, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n{heading}: {}: {}\n", row.case(), row.verdict)?;
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
        SafetyVerdict::Ok | SafetyVerdict::Held => "",
        SafetyVerdict::NotReached => {
            "Nothing is known of this case. Let what a fake holds be in a `retry_safety::Mutex`. Keep a cache in the state of the \
             function and not in a `static`, or empty it in `prepare`: then each scenario starts as a new process does."
        }
        SafetyVerdict::WrongKey => {
            "The key must hold all that makes another event another operation, and nothing else. `validate` compares the rest."
        }
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

/// Writes the table of the points: the number, the point, and the verdict of each fault.
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
    // A fault that nothing in this function can have needs no column.
    let faults = FaultKind::ALL.map(FaultKind::name).into_iter();
    let faults: Vec<_> = faults
        .filter(|fault| rows.iter().any(|row| row.fault == Some(*fault)))
        .collect();
    let mut header = vec!["#".to_owned(), "point".to_owned()];
    header.extend(faults.iter().map(|fault| fault.to_string()));
    let mut lines = vec![header];
    for (number, point) in points {
        let mut line = vec![number.to_string(), point.to_owned()];
        for fault in &faults {
            let case = rows
                .iter()
                .find(|row| row.number == number && row.fault == Some(*fault));
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
            fault: fault.map(FaultKind::name),
            verdict,
            findings: vec!["`charges` is 2 instead of 1".to_owned()],
            deliveries: vec!["killed".to_owned(), "response".to_owned()],
        }
    }

    fn report(rows: Vec<Row>) -> SafetyReport {
        SafetyReport {
            rows,
            ..SafetyReport::empty()
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
            text.contains("| # | point         | crash after  | refused     | takeover     |")
                && text
                    .contains("| 1 | POST /charges | effect twice | effect lost | effect twice |"),
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
    fn a_wait_that_did_not_come_again_is_counted_in_the_first_line_and_named() {
        let mut report = report(vec![row(0, None, SafetyVerdict::Ok)]);
        report
            .unplayed
            .push("`await 2 after POST /charges`, crash".to_owned());
        let text = report.to_string();
        let first = "retry safety: all 1 cases are safe; 1 more could not be played\n";
        assert!(text.starts_with(first), "{text}");
        assert!(
            text.contains("\n- `await 2 after POST /charges`, crash\n"),
            "{text}"
        );
    }

    #[test]
    fn the_first_line_of_a_safe_function_says_that_something_was_not_looked_at() {
        let mut report = report(vec![row(0, None, SafetyVerdict::Ok)]);
        report.unseen.push("a delivery after the window".to_owned());
        let text = report.to_string();
        let first = "retry safety: all 1 cases are safe; not looked at: 1, see below\n";
        assert!(text.starts_with(first), "{text}");
        assert!(
            text.ends_with("not looked at:\n\n- a delivery after the window\n"),
            "{text}"
        );
    }

    #[test]
    fn each_cause_is_explained_once() {
        let other = Row {
            point: "another event".to_owned(),
            ..row(0, None, SafetyVerdict::WrongKey)
        };
        let text = report(vec![
            other,
            row(1, Some(FaultKind::CrashAfter), SafetyVerdict::EffectTwice),
            row(1, Some(FaultKind::Takeover), SafetyVerdict::EffectTwice),
        ]);
        let text = text.to_string();
        assert_eq!(text.matches("fix first: ").count(), 1, "{text}");
        assert!(text.contains("then: another event: wrong key\n"), "{text}");
        assert!(text.contains("The key must hold"), "{text}");
        assert!(!text.contains("takeover: effect twice"), "{text}");
    }

    #[test]
    fn a_held_key_is_safe_and_a_point_that_was_not_reached_is_not() {
        let mut safe = report(vec![
            row(0, None, SafetyVerdict::Ok),
            row(1, Some(FaultKind::CrashBefore), SafetyVerdict::Held),
        ]);
        assert!(safe.is_safe());
        let text = safe.to_string();
        assert!(text.starts_with("retry safety: all 2 cases are safe\n"));
        assert!(!text.contains("fix first"));
        safe.assert_safe();
        let fault = Some(FaultKind::CrashAfter);
        safe.rows.push(row(1, fault, SafetyVerdict::NotReached));
        assert!(!safe.is_safe());
        let text = safe.to_string();
        let first = "retry safety: not proven, 1 of 3 cases were not reached\n";
        assert!(text.starts_with(first), "{text}");
    }

    #[test]
    fn a_check_that_could_not_run_is_not_safe() {
        let failed = SafetyReport::failed("no thread could be started");
        assert!(!failed.is_safe());
        assert!(failed.to_string().contains("could not run\n\nno thread"));
    }
}
