//! `idempotency cost`: what each path of a call costs, in units and in money, as Markdown tables or as JSON.

mod arguments;
mod capacity;

pub(crate) use arguments::CostArguments;

use std::fmt;

use idempotency_core::key::Json;
use idempotency_core::protocol::policy::Lookup;

use crate::exit::{Exit, Failure};
use crate::json::{self, Object, object};
use capacity::{Capacity, Path, Prices, RecordSize};

/// The sizes of responses without `--response`, in bytes.
const RESPONSES: [usize; 5] = [500, 1_000, 4_000, 40_000, 400_000];

/// How many calls the money is for.
const CALLS: f64 = 1e6;

/// The two ways to look for a record.
const LOOKUPS: [Lookup; 2] = [Lookup::ClaimFirst, Lookup::ReadFirst];

/// Prints the tables, or their figures as JSON.
pub(crate) fn print_cost(arguments: &CostArguments, as_json: bool) -> Result<Exit, Failure> {
    let responses = match arguments.response.as_slice() {
        [] => RESPONSES.as_slice(),
        given => given,
    };
    let json = || {
        let (lookup, duplicates) = (arguments.lookup, &arguments.duplicates);
        figures(responses, lookup, duplicates, prices(arguments))
    };
    json::print(as_json, json, tables(arguments, responses))?;
    Ok(Exit::Done)
}

/// Returns the tables that the arguments ask for.
fn tables(arguments: &CostArguments, responses: &[usize]) -> String {
    let sizes = responses.iter().copied().map(RecordSize::of_response);
    let sizes: Vec<_> = sizes.collect();
    let lookup = arguments.lookup;
    let columns: Vec<_> = responses.iter().copied().map(kilobytes).collect();
    let table = |first: &[&str]| Table::new(first.iter().map(|name| (*name).to_owned()), &columns);

    let mut units = table(&["call", "requests"]);
    for path in Path::ALL {
        let cells = sizes.iter().map(|size| shown(path.capacity(lookup, *size)));
        units.row([names(path).0.to_owned(), requests(path, lookup)], cells);
    }
    let mut text = units.to_string();
    let Some(prices) = prices(arguments) else {
        return text;
    };

    let mut money = table(&["1 000 000 calls"]);
    for path in Path::ALL {
        let cost = |size| amount(CALLS * prices.of(path.capacity(lookup, size)));
        money.row([names(path).0.to_owned()], sizes.iter().copied().map(cost));
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

/// Returns the price of one unit of each kind; `None` if a price is not given. The arguments are for a million units.
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

/// Returns the names of a path: in a table, and in JSON, where it stays the same in every release.
fn names(path: Path) -> (&'static str, &'static str) {
    match path {
        Path::FirstRun => ("first run", "first_run"),
        Path::Duplicate => ("duplicate of a finished call", "duplicate"),
        Path::InProgress => ("duplicate of a running call, `reject`", "in_progress"),
        Path::Waited => ("the same, `wait`, one read", "waited"),
        Path::Released => ("handler failed, `release`", "released"),
        Path::Recorded => ("handler failed, `record`", "recorded"),
        Path::WarmUp => ("cold start", "warm_up"),
    }
}

fn lookup_name(lookup: Lookup) -> &'static str {
    match lookup {
        Lookup::ReadFirst => "read-first",
        _ => "claim-first",
    }
}

fn requests(path: Path, lookup: Lookup) -> String {
    let shown = path
        .requests(lookup)
        .map(|request| match request.strip_suffix('!') {
            Some(refused) => format!("{refused}, refused"),
            None => request.to_owned(),
        });
    shown.collect::<Vec<_>>().join("; ")
}

/// Returns write units as `W` and read units as `R`. A number that is 0 is left out.
fn shown(capacity: Capacity) -> String {
    let parts = [(capacity.write, "W"), (capacity.read, "R")];
    let parts = parts.into_iter().filter(|(units, _)| *units > 0.0);
    let parts = parts.map(|(units, kind)| format!("{units} {kind}"));
    parts.collect::<Vec<_>>().join(" + ")
}

/// Returns an amount of money with as many digits as a reader needs.
fn amount(money: f64) -> String {
    let digits = match money {
        ..1.0 => 4,
        ..10.0 => 3,
        ..100.0 => 2,
        _ => 0,
    };
    format!("{money:.digits$}")
}

/// Returns a number with 12 digits: those after them are an error of the calculation.
fn rounded(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}

/// Returns the figures for responses of these sizes, in bytes. `duplicates` are shares in percent.
fn figures(
    responses: &[usize],
    lookup: Lookup,
    duplicates: &[f64],
    prices: Option<Prices>,
) -> Object {
    let responses = responses.iter().map(|bytes| {
        let size = RecordSize::of_response(*bytes);
        let paths = Path::ALL.into_iter();
        let response = object().count("bytes", *bytes).array(
            "paths",
            paths.map(|path| of_path(path, lookup, size, prices)),
        );
        let Some(prices) = prices else {
            return response.into();
        };
        let shares = duplicates
            .iter()
            .flat_map(|percent| LOOKUPS.map(|lookup| of_share(*percent, lookup, size, prices)));
        let pays_above = match prices.read_first_pays_above(size) {
            Some(share) => json::float(rounded(share * 100.0)),
            None => Json::Null,
        };
        let response = response.array("duplicates", shares);
        response
            .with("read_first_pays_above_percent", pays_above)
            .into()
    });
    object()
        .text("lookup", lookup_name(lookup))
        .with(
            "money_is_for_calls",
            prices.map(|_| Json::Float(CALLS.into())),
        )
        .array("responses", responses)
}

fn of_path(path: Path, lookup: Lookup, size: RecordSize, prices: Option<Prices>) -> Json {
    let capacity = path.capacity(lookup, size);
    let money = prices.map(|prices| json::float(rounded(CALLS * prices.of(capacity))));
    let path = object()
        .text("path", names(path).1)
        .array("requests", path.requests(lookup).map(request))
        .float("write_units", capacity.write)
        .float("read_units", capacity.read)
        .with("money", money);
    path.into()
}

/// Returns a request of [`Path::requests`]. `!` marks one that is refused.
fn request(request: &str) -> Json {
    let refused = request.strip_suffix('!');
    let action = object().text("action", refused.unwrap_or(request));
    action.bool("refused", refused.is_some()).into()
}

fn of_share(percent: f64, lookup: Lookup, size: RecordSize, prices: Prices) -> Json {
    let money = CALLS * prices.average(lookup, size, percent / 100.0);
    let share = object()
        .float("percent", percent)
        .text("lookup", lookup_name(lookup))
        .float("money", rounded(money));
    share.into()
}

/// A header and rows of the same length.
struct Table(Vec<Vec<String>>);

impl Table {
    /// Returns a table without rows. `first` are the headers of the first columns, `others` those of the columns after them.
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
