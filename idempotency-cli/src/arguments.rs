//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use idempotency_core::key::HashAlgorithm;

use crate::exit;

/// Keys, records and the table of idempotent Lambda functions.
///
/// ```
/// use clap::Parser;
/// use idempotency_cli::arguments::Arguments;
/// assert!(Arguments::try_parse_from(["idempotency", "get", "shop#42b7", "--table", "payments"]).is_ok());
/// ```
#[derive(Debug, Parser)]
#[command(
    name = "idempotency",
    version,
    // Said here, or the example above would stand in the help.
    about = "Keys, records and the table of idempotent Lambda functions",
    long_about = None,
    after_help = exit::HELP
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Print the key that an event has
    Key(KeyArguments),
    /// Print the record under a key
    Get(GetArguments),
    /// Delete the record under a key, so that the next call runs again
    Evict(EvictArguments),
    /// Create or check the table
    #[command(subcommand)]
    Table(TableCommand),
}

/// What to do with the table.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum TableCommand {
    /// Create the table: on demand, with TTL
    Create(StoreArguments),
    /// Check that the table exists and suits the functions; writes nothing
    Check(StoreArguments),
}

/// The arguments of `idempotency key`.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
With --jsonl each line of the input is one object: {\"event\": \"<the event as JSON text>\", \"expression\": \"...\",
\"prefix\": \"...\", \"validate\": \"...\", \"hash\": \"...\"}. All but `event` may be left out: the options are the defaults.
Each is answered by one line, in the same order: {\"key\": ..., \"text\": ..., \"validation\": ...}, {\"no_key\": true} or
{\"error\": \"...\"}; `missing` lists the parts of the key that the event does not have. A bad line is answered by an error; the exit code is 0.")]
pub struct KeyArguments {
    /// JMESPath expression of the key [default: the whole payload]
    #[arg(
        short,
        long,
        value_name = "EXPR",
        default_value = "",
        hide_default_value = true
    )]
    pub expression: String,
    /// The operation's key prefix [default: without one the digest alone is printed]
    #[arg(short, long)]
    pub prefix: Option<String>,
    /// The operation's path, such as shop::charge, for the default prefix: behind IDEMPOTENCY_KEY_PREFIX, else
    /// AWS_LAMBDA_FUNCTION_NAME
    #[arg(short, long, value_name = "PATH", conflicts_with = "prefix")]
    pub operation: Option<String>,
    /// JMESPath expression of the validated part
    #[arg(
        long,
        value_name = "EXPR",
        default_value = "",
        hide_default_value = true
    )]
    pub validate: String,
    /// md5, sha224, sha256, sha384 or sha512 [default: IDEMPOTENCY_HASH, or md5]
    #[arg(long, value_name = "NAME")]
    pub hash: Option<HashAlgorithm>,
    /// The invocation's tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// Print the canonical text that is hashed, too: it is part of the event
    #[arg(long)]
    pub explain: bool,
    /// Print one JSON object, as --jsonl does
    #[arg(long)]
    pub json: bool,
    /// Read one JSON object a line, answer each by one line
    #[arg(long, conflicts_with_all = ["explain", "json", "file"])]
    pub jsonl: bool,
    /// The event; `-` or none is the standard input
    #[arg(value_name = "EVENT.JSON")]
    pub file: Option<PathBuf>,
}

/// Which table, and what kind of output.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys, attribute names, region, endpoint and credentials come from the same environment variables as the functions':
IDEMPOTENCY_TABLE, IDEMPOTENCY_*_ATTR, IDEMPOTENCY_STATIC_PK_VALUE, AWS_REGION, AWS_ENDPOINT_URL_DYNAMODB, AWS_PROFILE, ...")]
pub struct StoreArguments {
    /// The table [default: IDEMPOTENCY_TABLE]
    #[arg(long)]
    pub table: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `idempotency get`.
#[derive(Debug, Args)]
pub struct GetArguments {
    /// The whole key, as errors and `idempotency key` print it
    pub key: String,
    /// Print the stored answer too
    #[arg(long)]
    pub show_data: bool,
    /// Which table.
    #[command(flatten)]
    pub store: StoreArguments,
}

/// The arguments of `idempotency evict`.
#[derive(Debug, Args)]
pub struct EvictArguments {
    /// The whole key, as errors and `idempotency key` print it
    pub key: String,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Evict a claim whose lease still runs: a second run can then overlap with the first
    #[arg(long)]
    pub force: bool,
    /// Which table.
    #[command(flatten)]
    pub store: StoreArguments,
}
