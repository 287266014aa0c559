//! `idempotency cost`: what each path of a call costs, in units and in money, as Markdown tables or as JSON.

mod capacity;

use std::fmt;

use idempotency_core::key::Json;
use idempotency_core::protocol::policy::Lookup;

use crate::arguments::CostArguments;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::json::{object, text};
use capacity::{Capacity, Path, Prices, RecordSize};

/// The sizes of responses without `--response`, in bytes.
const RESPONSES: [usize; 5] = [500, 1_000, 4_000, 40_000, 400_000];

/// How many calls the money is for.
const CALLS: f64 = 1e6;

/// The two ways to look for a record.
const LOOKUPS: [Lookup; 2] = [Lookup::ClaimFirst, Lookup::ReadFirst];

/// Prints the tables, or their figures as JSON.
pub(crate) fn print_cost(arguments: &CostArguments) -> Result<Exit, Failure> {
    let responses = match arguments.response.as_slice() {
        [] => RESPONSES.as_slice(),
        given => given,
    };
    let json = || {
        let (lookup, duplicates) = (arguments.lookup, &arguments.duplicates);
        figures(responses, lookup, duplicates, prices(arguments))
    };
    json::print(arguments.json, json, tables(arguments, responses))?;
    Ok(Exit::Done)
}

/// Returns the tables that the arguments ask for.
fn tables(arguments: &CostArguments, responses: &[usize]) -> String {
    let sizes: Vec<_> = responses
        .iter()
        .map(|bytes| RecordSize::of_response(*bytes))
        .collect();
    let lookup = arguments.lookup;
    let columns = responses.iter().map(|bytes| kilobytes(*bytes));
    let columns: Vec<_> = columns.collect();
    let table = |first: &[&str]| Table::new(first.iter().map(|name| (*name).to_owned()), &columns);

    let mut units = table(&["call", "requests"]);
    for path in Path::ALL {
        let cells = sizes.iter().map(|size| shown(path.capacity(lookup, *size)));
        units.row([name(path).to_owned(), requests(path, lookup)], cells);
    }
    let mut text = units.to_string();
    let Some(prices) = prices(arguments) else {
        return text;
    };

    let mut money = table(&["1 000 000 calls"]);
    for path in Path::ALL {
        let cost = |size: &RecordSize| CALLS * prices.of(path.capacity(lookup, *size));
        money.row(
            [name(path).to_owned()],
            sizes.iter().map(|size| amount(cost(size))),
        );
    }
    text.push_str(&format!("\n{money}"));

    let mut shares = table(&["of 1 000 000 calls, duplicates of finished calls"]);
    for percent in &arguments.duplicates {
        for lookup in LOOKUPS {
            let share = percent / 100.0;
            let average = |size: &RecordSize| CALLS * prices.average(lookup, *size, share);
            let first = format!("{percent} %, `{}`", lookup_name(lookup));
            shares.row([first], sizes.iter().map(|size| amount(average(size))));
        }
    }
    let above = |size: &RecordSize| match prices.read_first_pays_above(*size) {
        Some(share) => format!("{:.2} %", share * 100.0),
        None => "never".to_owned(),
    };
    shares.row(
        ["`read-first` is cheaper above".to_owned()],
        sizes.iter().map(above),
    );
    text.push_str(&format!("\n{shares}"));
    text
}

/// Returns the price of one unit of each kind. The arguments are for a million units.
fn prices(arguments: &CostArguments) -> Option<Prices> {
    Some(Prices {
        write: arguments.write_price? / 1e6,
        read: arguments.read_price? / 1e6,
    })
}

fn kilobytes(bytes: usize) -> String {
    let (whole, rest) = (bytes / 1_000, bytes % 1_000);
    match rest {
        0 => format!("{whole} KB"),
        _ => format!("{} KB", format!("{whole}.{rest:03}").trim_end_matches('0')),
    }
}

fn name(path: Path) -> &'static str {
    match path {
        Path::FirstRun => "first run",
        Path::Duplicate => "duplicate of a finished call",
        Path::InProgress => "duplicate of a running call, `reject`",
        Path::Waited => "the same, `wait`, one read",
        Path::Released => "handler failed, `release`",
        Path::Recorded => "handler failed, `record`",
        Path::WarmUp => "cold start",
    }
}

fn lookup_name(lookup: Lookup) -> &'static str {
    match lookup {
        Lookup::ReadFirst => "read-first",
        _ => "claim-first",
    }
}

fn requests(path: Path, lookup: Lookup) -> String {
    let requests = path.requests(lookup).into_iter();
    let shown = requests.map(|request| match request.strip_suffix('!') {
        Some(refused) => format!("{refused}, refused"),
        None => request.to_owned(),
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// Returns write units as `W` and read units as `R`; those that are none are left out.
fn shown(capacity: Capacity) -> String {
    let parts = [(capacity.write, "W"), (capacity.read, "R")];
    let parts = parts.into_iter().filter(|(units, _)| *units > 0.0);
    let parts: Vec<_> = parts
        .map(|(units, kind)| format!("{units} {kind}"))
        .collect();
    parts.join(" + ")
}

/// Returns an amount of money with as many digits as a reader needs.
fn amount(money: f64) -> String {
    let digits = if money < 1.0 {
        4
    } else if money < 10.0 {
        3
    } else if money < 100.0 {
        2
    } else {
        0
    };
    format!("{money:.digits$}")
}

/// Returns the figures of these sizes of responses. `duplicates` are shares in percent.
fn figures(
    responses: &[usize],
    lookup: Lookup,
    duplicates: &[f64],
    prices: Option<Prices>,
) -> Json {
    let responses = responses.iter().map(|bytes| {
        let size = RecordSize::of_response(*bytes);
        let paths = Path::ALL.into_iter();
        let paths = paths.map(|path| of_path(path, lookup, size, prices));
        let shares = prices.map(|prices| {
            let averages = duplicates
                .iter()
                .flat_map(|percent| LOOKUPS.map(|lookup| of_share(*percent, lookup, size, prices)));
            Json::Array(averages.collect())
        });
        let pays_above = prices.map(|prices| match prices.read_first_pays_above(size) {
            Some(share) => Json::Float((share * 100.0).into()),
            None => Json::Null,
        });
        object([
            ("bytes", Some(count(*bytes))),
            ("paths", Some(Json::Array(paths.collect()))),
            ("duplicates", shares),
            ("read_first_pays_above_percent", pays_above),
        ])
    });
    object([
        ("lookup", Some(text(lookup_name(lookup)))),
        (
            "money_is_for_calls",
            prices.map(|_| Json::Float(CALLS.into())),
        ),
        ("responses", Some(Json::Array(responses.collect()))),
    ])
}

fn of_path(path: Path, lookup: Lookup, size: RecordSize, prices: Option<Prices>) -> Json {
    let capacity = path.capacity(lookup, size);
    let requests = path.requests(lookup).into_iter().map(request);
    let money = prices.map(|prices| Json::Float((CALLS * prices.of(capacity)).into()));
    object([
        ("path", Some(text(json_name(path)))),
        ("requests", Some(Json::Array(requests.collect()))),
        ("write_units", Some(Json::Float(capacity.write.into()))),
        ("read_units", Some(Json::Float(capacity.read.into()))),
        ("money", money),
    ])
}

/// Returns a request of [`Path::requests`]. `!` marks one that is refused.
fn request(request: &str) -> Json {
    let refused = request.strip_suffix('!');
    object([
        ("action", Some(text(refused.unwrap_or(request)))),
        ("refused", Some(Json::Bool(refused.is_some()))),
    ])
}

fn of_share(percent: f64, lookup: Lookup, size: RecordSize, prices: Prices) -> Json {
    let money = CALLS * prices.average(lookup, size, percent / 100.0);
    object([
        ("percent", Some(Json::Float(percent.into()))),
        ("lookup", Some(text(lookup_name(lookup)))),
        ("money", Some(Json::Float(money.into()))),
    ])
}

/// Returns the name of a path, which stays the same in every release.
fn json_name(path: Path) -> &'static str {
    match path {
        Path::FirstRun => "first_run",
        Path::Duplicate => "duplicate",
        Path::InProgress => "in_progress",
        Path::Waited => "waited",
        Path::Released => "released",
        Path::Recorded => "recorded",
        Path::WarmUp => "warm_up",
    }
}

fn count(count: usize) -> Json {
    crate::json::number(i64::try_from(count).unwrap_or(i64::MAX))
}

/// A header and rows of the same length.
struct Table(Vec<Vec<String>>);

impl Table {
    /// Returns a table without rows. `first` are the headers of the first columns, `others` those of the others.
    fn new(first: impl Iterator<Item = String>, others: &[String]) -> Self {
        Self(vec![first.chain(others.iter().cloned()).collect()])
    }

    /// Adds a row.
    fn row<const N: usize>(&mut self, first: [String; N], others: impl Iterator<Item = String>) {
        self.0.push(first.into_iter().chain(others).collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.0.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, row) in self.0.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                write!(f, "| {cell:<width$} ", width = self.width(column))?;
            }
            writeln!(f, "|")?;
            if number == 0 {
                for column in 0..row.len() {
                    write!(f, "|{}", "-".repeat(self.width(column) + 2))?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
