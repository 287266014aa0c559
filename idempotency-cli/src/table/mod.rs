//! `idempotency table create` creates the table. `idempotency table check` checks it and reports all findings.

mod dynamodb;
mod postgres;

use anstyle::Style;

use crate::arguments::CheckArguments;
use crate::connection::{Connection, Database};
use crate::exit::{Exit, Failure};
use crate::json::{self, Object};
use crate::terminal::{BAD, DOUBTFUL, GOOD, Lines, visible};

/// The result of one check.
struct Finding {
    check: String,
    verdict: Verdict,
    detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    /// It works, but could be improved.
    Note,
    /// The check could not be completed.
    Unknown,
    Wrong,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Wrong => "wrong",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Ok => GOOD,
            Self::Note => Style::new(),
            Self::Unknown => DOUBTFUL,
            Self::Wrong => BAD,
        }
    }
}

fn finding(check: impl Into<String>, verdict: Verdict, detail: impl Into<String>) -> Finding {
    Finding {
        check: check.into(),
        verdict,
        detail: detail.into(),
    }
}

pub(crate) async fn create(connection: &Connection) -> Result<Exit, Failure> {
    match &connection.database {
        Database::DynamoDb(on) => dynamodb::create(on, connection.json).await?,
        Database::Postgres(store) => postgres::create(store, connection.json).await?,
        Database::Other => return Err(connection.without_a_table()),
    }
    Ok(Exit::Done)
}

pub(crate) async fn check(
    arguments: &CheckArguments,
    connection: &Connection,
) -> Result<Exit, Failure> {
    let (table, findings) = match &connection.database {
        Database::DynamoDb(on) => (
            format!("table `{}`", on.config.table),
            dynamodb::findings(on, arguments.prefix.as_deref()).await?,
        ),
        Database::Postgres(_) if arguments.prefix.is_some() => {
            let message = "`--prefix` is about DynamoDB: leave it out";
            return Err(Failure::new(Exit::Usage, message));
        }
        Database::Postgres(store) => (connection.name(), postgres::findings(store).await?),
        Database::Other => return Err(connection.without_a_table()),
    };
    let wrong = findings
        .iter()
        .any(|finding| finding.verdict == Verdict::Wrong);
    let name = connection.table().map(|on| on.config.table.clone());
    let json = || to_json(name.unwrap_or(table.clone()), &findings, wrong);
    json::print(connection.json, json, to_text(&table, &findings))?;
    Ok(if wrong { Exit::Failed } else { Exit::Done })
}

fn to_json(table: String, findings: &[Finding], wrong: bool) -> Object {
    let finding = |finding: &Finding| {
        let finding = json::object()
            .text("check", &finding.check)
            .text("result", finding.verdict.name())
            .text("detail", &finding.detail);
        finding.into()
    };
    json::object()
        .text("table", table)
        .bool("ok", !wrong)
        .array("findings", findings.iter().map(finding))
}

fn to_text(table: &str, findings: &[Finding]) -> Lines {
    let head = Lines::from(format_args!("{}\n", visible(table)));
    findings.iter().fold(head, |lines, finding| {
        let verdict = format!("{:<8}", finding.verdict.name());
        let verdict = Lines::styled(finding.verdict.style(), &verdict);
        let detail = visible(&finding.detail);
        let rest = format_args!(" {:<20} {detail}\n", finding.check);
        lines.with("  ").with(verdict).with(rest)
    })
}
