//! The command line.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::builder::{TypedValueParser, UnknownArgumentValueParser};
use clap::{
    Arg, ArgGroup, Args, ColorChoice, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    ValueHint, value_parser,
};
use clap_complete::Shell;
use idempotency_core::config::{ConfigurationError, Settings, Variables};
use idempotency_core::key::HashAlgorithm;
use idempotency_core::record::RecordId;
use idempotency_dynamodb::record_of_piece;
use idempotency_expression::parse_duration;

use crate::cost::CostArguments;
use crate::exit;
use crate::help;
use crate::plan::PlanArguments;
use crate::template::TemplateArguments;
use crate::terminal::is_hidden;

/// Keys, records and the table of idempotent Lambda functions.
#[derive(Debug, Parser)]
#[command(
    name = "idempotency",
    version,
    max_term_width = 100,
    after_help = exit::HELP,
    after_long_help = format!("{}\n\n{}", help::ALL, exit::HELP),
    arg(color()),
)]
pub(crate) struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// The options of every command.
    #[command(flatten)]
    pub(crate) global: GlobalArguments,
}

/// The heading of the options that stand before or after the name of a command.
const GLOBAL: &str = "Global options";

/// The options that stand before or after the name of a command.
#[derive(Debug, Default, Args)]
pub(crate) struct GlobalArguments {
    /// The DynamoDB table [default: IDEMPOTENCY_TABLE], also if IDEMPOTENCY_STORE names another kind
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "NAME", value_parser = one_table())]
    pub(crate) table: Option<String>,
    /// Print one JSON object, also for an error
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
}

/// Returns the parser of `--table`. Clap takes the last one of a line, so this refuses two that differ: the command would act on a
/// table that the operator may not mean.
fn one_table() -> impl TypedValueParser<Value = String> {
    let first = Arc::new(OnceLock::new());
    move |table: &str| match first.get_or_init(|| table.to_owned()) {
        first if first == table => Ok(table.to_owned()),
        first => Err(format!(
            "the line names the table `{first}` too: leave out one of them"
        )),
    }
}

/// Returns the option that [`chosen_color`] reads.
fn color() -> Arg {
    Arg::new("color")
        .long("color")
        .global(true)
        .help_heading(GLOBAL)
        .value_name("WHEN")
        .value_parser(value_parser!(ColorChoice))
        .default_value("auto")
        .help("Colour the output; auto does it on a terminal, unless NO_COLOR is set")
}

/// Returns the value of `--color` on a command line. Its help and its errors follow it too, so it is read before the others.
pub(crate) fn chosen_color(line: impl IntoIterator<Item = OsString>) -> ColorChoice {
    let mut line = line.into_iter().take_while(|argument| argument != "--");
    let mut chosen = ColorChoice::Auto;
    while let Some(argument) = line.next() {
        let argument = argument.to_string_lossy();
        let value = match argument.strip_prefix("--color") {
            Some("") => line.next().unwrap_or_default(),
            Some(value) => value.trim_start_matches('=').into(),
            None => continue,
        };
        chosen = value.to_string_lossy().parse().unwrap_or(chosen);
    }
    chosen
}

/// Parses the command line. An option of the AWS CLI that this command does not have is refused with the name of its variable.
pub(crate) fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let variables = [
        ("profile", "AWS_PROFILE"),
        ("region", "AWS_REGION"),
        ("endpoint-url", "AWS_ENDPOINT_URL_DYNAMODB"),
    ];
    let refused = variables.map(|(name, variable)| {
        let tip = format!("set {variable} instead, as for a function");
        let refused = UnknownArgumentValueParser::suggest(tip);
        let option = Arg::new(name).long(name).value_parser(refused);
        option.global(true).hide(true)
    });
    // Here alone: a shell would complete them.
    let command = Arguments::command().args(refused);
    Arguments::from_arg_matches(&command.try_get_matches_from(line)?)
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the key that an event has
    Key(KeyArguments),
    /// Print the record under a key
    Get(GetArguments),
    /// Print the event that a record keeps, or invoke a function with it
    Replay(ReplayArguments),
    /// Decide about a held key: its run had its effect, or the next call runs the handler
    Resolve(ResolveArguments),
    /// Read the table for keys that wait for a decision
    List(ListArguments),
    /// Delete the record under a key, so that the next call runs the handler again
    Evict(EvictArguments),
    /// Delete expired rows of a table in PostgreSQL
    Expire(ExpireArguments),
    /// Create or check the table, or print a template of it
    #[command(subcommand, after_long_help = help::TABLE)]
    Table(TableCommand),
    /// Print what calls cost: requests, capacity units, and money
    Cost(CostArguments),
    /// Print what it costs to keep the keys of updates in the item that they update
    Plan(PlanArguments),
    /// Print the script with which a shell completes this command
    #[command(after_long_help = help::COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages, one for each command
    #[command(after_long_help = help::MAN)]
    Man {
        /// The folder, which is created if it is missing
        #[arg(value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
}

/// The commands on the table.
#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Create the table: on demand, with TTL, encryption by KMS, deletion protection and point-in-time recovery; in PostgreSQL, apply
    /// the migration
    #[command(after_long_help = help::CREATE)]
    Create,
    /// Check that the table exists and is suitable for the functions; writes nothing
    Check(CheckArguments),
    /// Print a template of the table, the functions' permissions and alarms, for SAM, CDK, Terraform or CloudFormation; or the migration
    /// for PostgreSQL
    Template(TemplateArguments),
}

/// The arguments of `idempotency key`.
#[derive(Debug, Default, Args)]
#[command(
    group(ArgGroup::new("client").args(["caller", "caller_header", "caller_value", "shared_by_all_callers"])),
    after_long_help = help::KEY
)]
pub(crate) struct KeyArguments {
    /// JMESPath expression of the key [default: the whole payload]
    #[arg(short, long, value_name = "EXPR")]
    pub(crate) expression: Option<String>,
    /// The key prefix of the operation [default: none, only the digest is printed]
    #[arg(short, long)]
    pub(crate) prefix: Option<String>,
    /// The path of the operation, such as shop::charge, for the default prefix; it follows IDEMPOTENCY_KEY_PREFIX, or
    /// AWS_LAMBDA_FUNCTION_NAME without it, one of which must be set
    #[arg(short, long, value_name = "PATH", conflicts_with = "prefix")]
    pub(crate) operation: Option<String>,
    /// JMESPath expression of the validated part
    #[arg(long, value_name = "EXPR")]
    pub(crate) validate: Option<String>,
    /// md5, sha224, sha256, sha384 or sha512 [default: IDEMPOTENCY_HASH, or md5]
    #[arg(long, value_name = "NAME")]
    pub(crate) hash: Option<HashAlgorithm>,
    /// The tenant of the invocation
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// The event is an HTTP request: print the key that the HTTP layer and #[idempotent(http)] compute. --expression is then their
    /// `key`, and --validate their `fingerprint`
    #[arg(long, requires = "client", conflicts_with_all = ["explain", "jsonl"])]
    pub(crate) http: bool,
    /// With --http: the expression of the caller, such as requestContext.authorizer.jwt.claims.sub
    #[arg(long, value_name = "EXPR", requires = "http")]
    pub(crate) caller: Option<String>,
    /// With --http: the header of the caller
    #[arg(long, value_name = "NAME", requires = "http")]
    pub(crate) caller_header: Option<String>,
    /// With --http: the caller itself, for an operation with `caller_from`
    #[arg(long, value_name = "TEXT", requires = "http")]
    pub(crate) caller_value: Option<String>,
    /// With --http: all callers share their keys
    #[arg(long, requires = "http")]
    pub(crate) shared_by_all_callers: bool,
    /// With --http: the header of the key [default: Idempotency-Key]
    #[arg(
        long,
        value_name = "NAME",
        requires = "http",
        conflicts_with = "expression"
    )]
    pub(crate) key_header: Option<String>,
    /// With --http: each path has its own keys
    #[arg(long, requires = "http")]
    pub(crate) key_per_path: bool,
    /// Also print the canonical text that is hashed; it is part of the event
    #[arg(long)]
    pub(crate) explain: bool,
    /// Read one JSON object per line, and print one JSON object per line
    #[arg(long, conflicts_with_all = ["explain", "file"])]
    pub(crate) jsonl: bool,
    /// The file with the event; `-` or none is standard input
    #[arg(value_name = "EVENT.JSON")]
    pub(crate) file: Option<PathBuf>,
}

/// Parses a window, by the rules of the setting `expires_after`.
fn window(text: &str) -> Result<Duration, String> {
    let window = parse_duration(text)?;
    match (window.as_secs(), window.subsec_nanos()) {
        (0, _) => Err(
            "write at least `1s`: a response with a shorter window is never replayed".to_owned(),
        ),
        (_, 0) => Ok(window),
        _ => Err("write whole seconds".to_owned()),
    }
}

fn prefix(text: &str) -> Result<String, String> {
    let checked = checked_prefix(text).map_err(|error| error.to_string())?;
    checked.ok_or_else(|| "write the `key_prefix` of an operation, such as payments".to_owned())
}

/// Checks a prefix as a function checks its `key_prefix`. An empty one counts as none.
pub(crate) fn checked_prefix(prefix: &str) -> Result<Option<String>, ConfigurationError> {
    if prefix.is_empty() {
        return Ok(None);
    }
    let settings = Settings {
        key_prefix: Some(prefix.to_owned().into()),
        ..Settings::default()
    };
    settings.key_prefix(&Variables::default(), "").map(Some)
}

/// The numbers of hexadecimal digits that a digest can have.
const DIGITS: [usize; 6] = [32, 40, 56, 64, 96, 128];

/// Parses the key of a record: `{prefix}#{digest}`. Refuses a text that cannot be a key, because its record would appear
/// to be missing.
fn record_id(text: &str) -> Result<RecordId, String> {
    if text.contains(is_hidden) {
        let remedy = "it has a line break or another hidden character: write the key alone, which is the first line of `idempotency key`";
        return Err(remedy.to_owned());
    }
    // A prefix of Powertools can have single blanks inside.
    if text.starts_with(char::is_whitespace) || text.contains("  ") {
        return Err("it has blanks before the key: write the key alone".to_owned());
    }
    if let Some(record) = record_of_piece(text) {
        return Err(format!(
            "it is a piece of a large response: give the key of its record, `{record}`"
        ));
    }
    let parts = text.rsplit_once('#');
    let Some((_, digest)) = parts.filter(|(prefix, _)| !prefix.is_empty()) else {
        return Err("it has no prefix: write the whole key, `PREFIX#DIGEST`, as `idempotency key --prefix PREFIX` prints it".to_owned());
    };
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_hex = digest.bytes().all(is_hex) && DIGITS.contains(&digest.len());
    // Powertools for TypeScript writes base64.
    if is_hex || (digest.ends_with('=') && digest.len() >= 24) {
        return Ok(RecordId::new(text));
    }
    Err(format!(
        "`{digest}` is no digest: write all of its 32, 40, 56, 64, 96 or 128 lower-case hexadecimal digits after the last `#`"
    ))
}

/// The arguments of `idempotency table check`.
#[derive(Debug, Args)]
#[command(after_long_help = help::CHECK)]
pub(crate) struct CheckArguments {
    /// The key prefix of an operation: the actions on items are tried on an id under it, as the policy of its function allows
    #[arg(short, long, value_parser = prefix)]
    pub(crate) prefix: Option<String>,
}

/// The arguments of `idempotency get`.
#[derive(Debug, Args)]
#[command(after_long_help = help::GET)]
pub(crate) struct GetArguments {
    /// The whole key, as errors and `idempotency key` print it
    #[arg(value_parser = record_id)]
    pub(crate) key: RecordId,
    /// Also print the stored response, and the results of steps
    #[arg(long)]
    pub(crate) show_data: bool,
    /// Also print the event that the record keeps under `store_event`
    #[arg(long)]
    pub(crate) event: bool,
}

/// The arguments of `idempotency list`.
#[derive(Debug, Args)]
#[command(after_long_help = help::LIST)]
pub(crate) struct ListArguments {
    /// Claims whose run did not report its end
    #[arg(long, required = true)]
    pub(crate) held: bool,
    /// Stop after this many read units, each 8 KB of the table; in another store than DynamoDB, after this many records
    #[arg(long, value_name = "UNITS", default_value = "10000")]
    pub(crate) read_units: u32,
    /// Continue after this key, as the previous `list` printed it
    #[arg(long, value_name = "KEY")]
    pub(crate) after: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// The arguments of `idempotency replay`.
#[derive(Debug, Args)]
#[command(after_long_help = help::REPLAY)]
pub(crate) struct ReplayArguments {
    /// The whole key, as errors and `idempotency key` print it
    #[arg(value_parser = record_id)]
    pub(crate) key: RecordId,
    /// Invoke this function with the event, and wait for its response: a name, a name with an alias, or an ARN
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) invoke: Option<String>,
    /// Also print the response of the function, or the text of its error
    #[arg(long, requires = "invoke")]
    pub(crate) show_data: bool,
    /// Do not ask for confirmation
    #[arg(short, long, requires = "invoke")]
    pub(crate) yes: bool,
}

/// The arguments of `idempotency resolve`.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("ending").required(true).args(["completed", "rerun"])),
    // Clap does not wrap it.
    override_usage = "idempotency resolve [OPTIONS] <--completed <RESPONSE>|--rerun>\n           --by <WHO> --reason <WHY> <KEY>",
    after_long_help = help::RESOLVE
)]
pub(crate) struct ResolveArguments {
    /// The whole key, as errors and `idempotency key` print it
    #[arg(value_parser = record_id)]
    pub(crate) key: RecordId,
    /// The run had its effect: the response that duplicates get, as JSON text; @FILE reads a file, - standard input
    #[arg(long, value_name = "RESPONSE", allow_hyphen_values = true)]
    pub(crate) completed: Option<Response>,
    /// The run had no effect: the next call runs the handler
    #[arg(long)]
    pub(crate) rerun: bool,
    /// How long duplicates get the response from now on, such as 24h [default: as long as the record is kept; under
    /// on_timeout = "hold" ten years]
    #[arg(long, value_name = "DURATION", conflicts_with = "rerun", value_parser = window)]
    pub(crate) expires_after: Option<Duration>,
    /// Who decides
    #[arg(long, value_name = "WHO")]
    pub(crate) by: String,
    /// Why
    #[arg(long, value_name = "WHY")]
    pub(crate) reason: String,
    /// The owner of the claim, as `idempotency get` shows it; another owner is refused
    #[arg(long, value_name = "TOKEN")]
    pub(crate) owner: Option<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Also decide about a claim whose lease still runs, or that has none; the run may then have its effect after the decision
    #[arg(long)]
    pub(crate) force: bool,
}

/// A response on the command line. Its `Debug` shows only the length.
#[derive(Clone)]
pub(crate) struct Response(pub(crate) String);

impl From<&str> for Response {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Response({} bytes)", self.0.len())
    }
}

/// The arguments of `idempotency evict`.
#[derive(Debug, Args)]
#[command(after_long_help = help::EVICT)]
pub(crate) struct EvictArguments {
    /// The whole key, as errors and `idempotency key` print it
    #[arg(value_parser = record_id)]
    pub(crate) key: RecordId,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Also evict a claim whose lease still runs, or that has none; a second run can then overlap with the first
    #[arg(long)]
    pub(crate) force: bool,
}

/// The arguments of `idempotency expire`.
#[derive(Debug, Args)]
#[command(after_long_help = help::EXPIRE)]
pub(crate) struct ExpireArguments {
    /// How many rows one statement deletes
    #[arg(long, value_name = "ROWS", default_value = "1000", value_parser = value_parser!(u32).range(1..=100_000))]
    pub(crate) pieces_of: u32,
    /// Stop after this many rows [default: when no expired one is left]
    #[arg(long, value_name = "ROWS", value_parser = value_parser!(u64).range(1..))]
    pub(crate) at_most: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_choice_of_colours_is_found_before_the_line_is_checked() {
        for (line, chosen) in [
            ("get --help", ColorChoice::Auto),
            ("--color always get", ColorChoice::Always),
            ("get --color=never --help", ColorChoice::Never),
            ("get --color always --color never", ColorChoice::Never),
            ("get --color", ColorChoice::Auto),
            ("get --color blue", ColorChoice::Auto),
            ("get -- --color always", ColorChoice::Auto),
        ] {
            let words = line.split(' ').map(Into::into);
            assert_eq!(chosen_color(words), chosen, "{line}");
        }
    }
}
