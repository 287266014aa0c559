//! `idempotency table template` prints the table, the functions' permissions and the alarms for a tool that deploys them.
//!
//! One [`Description`] says what is deployed. Each format is an example, whose parts are replaced by those of the description.

mod cdk_and_terraform;
mod cloudformation;
mod example;

use std::ffi::OsString;
use std::io::Write as _;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use idempotency_core::config::Variables;
use idempotency_dynamodb::TableConfig;
use idempotency_postgres::PostgresStore;
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::help;

/// The variable that names the table.
const TABLE: &str = "IDEMPOTENCY_TABLE";

/// The actions of a function on the items of the table.
pub(crate) const ACTIONS: [&str; 4] = [
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
];

/// The name before `Records` of the policy of an operator.
const OPERATOR: &str = "Operator";

/// The id that a start of a function reads. No record has it.
pub(crate) const WARM_UP_ID: &str = "#warm-up";

/// The arguments of `idempotency table template`.
#[derive(Debug, Args)]
#[command(after_long_help = help::TEMPLATE)]
pub(crate) struct TemplateArguments {
    /// The tool that deploys it
    #[arg(long, value_enum)]
    format: Format,
    /// A function and the prefixes of its operations, such as Payment=payments,refunds; repeat it for each function. The function
    /// reaches the records under these prefixes alone. `*` at the end stands for any end, as in shop.* [default: one policy
    /// for all records]
    #[arg(long = "function", value_name = "NAME=PREFIX,..")]
    functions: Vec<Function>,
    /// Add alarms on the metrics that the functions send to this namespace
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    alarms: Option<String>,
    /// A key of your own in KMS, which encrypts the table; each policy allows kms:Decrypt on it [default: the key of AWS for DynamoDB]
    #[arg(long, value_name = "ARN", value_parser = kms_key)]
    kms_key: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// CloudFormation in YAML, for a SAM template
    Sam,
    /// A construct for CDK in TypeScript
    Cdk,
    /// Terraform or OpenTofu
    Terraform,
    /// CloudFormation in JSON
    Json,
    /// The migration of a table in PostgreSQL, without permissions and alarms
    Sql,
}

/// A function, and the patterns of the ids of its records.
#[derive(Clone, Debug)]
struct Function {
    name: String,
    prefixes: Vec<String>,
}

/// What a text may have beside letters and digits.
const MARKS: &str = "._:/#@+=-";

/// Returns true if each format, and a pattern of IAM, has this text as it stands. IAM reads `*`, `?` and `${`, Terraform `${` and `%{`.
fn is_literal(text: &str) -> bool {
    let plain = |each: char| each.is_ascii_alphanumeric() || MARKS.contains(each);
    !text.is_empty() && text.chars().all(plain)
}

impl FromStr for Function {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, prefixes)) = text.split_once('=') else {
            return Err("write NAME=PREFIX, such as Payment=payments".to_owned());
        };
        if !name.starts_with(|first: char| first.is_ascii_alphabetic())
            || !name.chars().all(|each| each.is_ascii_alphanumeric())
        {
            return Err(format!(
                "`{name}` cannot name a resource: write a letter, then letters and digits"
            ));
        }
        let prefixes: Vec<_> = prefixes.split(',').map(str::to_owned).collect();
        for prefix in &prefixes {
            let fixed = prefix.strip_suffix('*').unwrap_or(prefix);
            if !is_literal(fixed) {
                return Err(format!(
                    "`{prefix}` is no prefix: write letters, digits and {MARKS} and if need be one * at the end"
                ));
            }
        }
        let name = name.to_owned();
        Ok(Self { name, prefixes })
    }
}

/// Parses a namespace of CloudWatch that a query can name without quotes.
fn namespace(text: &str) -> Result<String, String> {
    let fits = |each: char| each.is_ascii_alphanumeric() || each == '_';
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err("write a letter, then letters, digits and _: a query cannot name another namespace without quotes".to_owned())
}

/// Parses the ARN of a key. A policy cannot name a key by its alias.
fn kms_key(text: &str) -> Result<String, String> {
    let of = |marks: &'static str| {
        move |each: char| each.is_ascii_lowercase() || each.is_ascii_digit() || marks.contains(each)
    };
    let fits = |part: &str, marks| !part.is_empty() && part.chars().all(of(marks));
    let parts: Vec<_> = text.split(':').collect();
    if let ["arn", partition, "kms", region, account, key] = parts[..]
        && partition.starts_with("aws")
        && [partition, region].into_iter().all(|part| fits(part, "-"))
        && account.len() == 12
        && account.chars().all(|each| each.is_ascii_digit())
        && key.strip_prefix("key/").is_some_and(|id| fits(id, "-"))
    {
        return Ok(text.to_owned());
    }
    Err("write the ARN of a key, such as arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab, not an alias".to_owned())
}

/// What is deployed.
struct Description {
    /// `None` if the tool chooses the name.
    table: Option<String>,
    partition_key: String,
    sort_key: Option<String>,
    expiration: String,
    /// The value of the partition key on a table with a sort key.
    partition: Option<String>,
    functions: Vec<Function>,
    /// The namespace of the metrics that the alarms watch.
    alarms: Option<String>,
    /// The ARN of the key that encrypts the table. `None` for that of AWS.
    kms_key: Option<String>,
}

impl Description {
    /// Checks that the arguments and the variables fit together. `partition_known` is true if a variable sets the value of the partition
    /// key.
    fn check(&self, partition_known: bool) -> Result<(), String> {
        let named = |name: &&String| !is_literal(name) || name.contains([':', '/']);
        if let Some(name) = self.table.iter().find(named) {
            return Err(format!(
                "`{name}` is no name of a table: write the name, not an ARN"
            ));
        }
        let mut names: Vec<_> = self.functions.iter().map(|each| &each.name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let name = pair[0];
            return Err(format!(
                "two functions are called `{name}`: write {name}=PREFIX,PREFIX"
            ));
        }
        if names.iter().any(|name| *name == OPERATOR) {
            return Err(format!(
                "`{OPERATOR}Records` is the policy of an operator: give the function another name than `{OPERATOR}`"
            ));
        }
        let attributes = [&self.partition_key, &self.expiration].into_iter();
        let mut texts = attributes.chain(&self.sort_key).chain(&self.partition);
        if let Some(text) = texts.find(|text| !is_literal(text)) {
            return Err(format!(
                "a template cannot hold `{text}`: the names of attributes and IDEMPOTENCY_STATIC_PK_VALUE have letters, digits and {MARKS}"
            ));
        }
        if self.sort_key.is_some() && !self.functions.is_empty() && !partition_known {
            return Err("the table has a sort key, so a policy names the value of the partition key: set IDEMPOTENCY_STATIC_PK_VALUE as the \
                 functions have it"
                .to_owned());
        }
        Ok(())
    }

    /// Returns the name of each policy's function, and the values of the partition key of its records: none stands for all.
    fn policies(&self) -> Vec<(String, Vec<String>)> {
        if self.functions.is_empty() {
            return vec![("Function".to_owned(), Vec::new())];
        }
        let functions = self.functions.iter();
        let policy = |function: &Function| (function.name.clone(), self.leading_keys(function));
        functions.map(policy).collect()
    }

    /// Returns the action that lists records.
    fn listing(&self) -> &'static str {
        match self.sort_key {
            Some(_) => "dynamodb:Query",
            None => "dynamodb:Scan",
        }
    }

    /// Returns true if a function with these own values of the partition key also reads the id of a start. With a sort key there is one
    /// value.
    fn reads_another(&self, own: &[String]) -> bool {
        !own.is_empty() && self.sort_key.is_none()
    }

    fn leading_keys(&self, function: &Function) -> Vec<String> {
        if let Some(partition) = &self.partition {
            return vec![partition.clone()];
        }
        let pattern = |prefix: &String| match prefix.ends_with('*') {
            true => prefix.clone(),
            false => format!("{prefix}#*"),
        };
        function.prefixes.iter().map(pattern).collect()
    }
}

impl TemplateArguments {
    /// Returns true if the template is of a table in PostgreSQL.
    pub(crate) fn is_migration(&self) -> bool {
        matches!(self.format, Format::Sql)
    }
}

fn print_migration(
    arguments: &TemplateArguments,
    table: Option<String>,
    variables: Vec<(OsString, OsString)>,
) -> Result<Exit, Failure> {
    let options = [
        table,
        arguments.alarms.clone(),
        arguments.kms_key.clone(),
        arguments.functions.first().map(|it| it.name.clone()),
    ];
    if options.iter().any(Option::is_some) {
        let message = "`--format sql` is about PostgreSQL: leave out --function, --alarms, --kms-key and --table, and name the table with \
                       IDEMPOTENCY_POSTGRES_TABLE";
        return Err(Failure::new(Exit::Usage, message));
    }
    print(&PostgresStore::migration(&variables.into_iter().collect())?)
}

/// Prints the template. `table` is the name of the table, if an option sets it.
pub(crate) fn print_template(
    arguments: &TemplateArguments,
    table: Option<String>,
    mut variables: Vec<(OsString, OsString)>,
) -> Result<Exit, Failure> {
    let template = match arguments.format {
        Format::Sam => cloudformation::yaml,
        Format::Json => cloudformation::json,
        Format::Cdk => cdk_and_terraform::construct,
        Format::Terraform => cdk_and_terraform::module,
        Format::Sql => return print_migration(arguments, table, variables),
    };
    let set = variables.iter().rfind(|(name, _)| name == TABLE);
    let set = set.map(|(_, table)| table.to_string_lossy().into_owned());
    // The other settings are read only if a table is set, so any name will do. The last value of a variable counts.
    variables.push((TABLE.into(), "idempotency".into()));
    let variables: Variables = variables.into_iter().collect();
    TableConfig::check(&variables)?;
    let config = TableConfig::from_variables(&variables)?;
    let composite = config.sort_key.is_some();
    let description = Description {
        table: table.or(set).filter(|name| !name.is_empty()),
        partition_key: config.partition_key().to_owned(),
        expiration: config.ttl_attribute().to_owned(),
        partition: composite.then_some(config.partition),
        sort_key: config.sort_key,
        functions: arguments.functions.clone(),
        alarms: arguments.alarms.clone(),
        kms_key: arguments.kms_key.clone(),
    };
    let partition_known = ["IDEMPOTENCY_STATIC_PK_VALUE", "AWS_LAMBDA_FUNCTION_NAME"]
        .iter()
        .any(|name| variables.value(name).is_some());
    description
        .check(partition_known)
        .map_err(|message| Failure::new(Exit::Usage, message))?;
    print(&template(&description))
}

fn print(text: &str) -> Result<Exit, Failure> {
    let mut output = std::io::stdout().lock();
    let written = output.write_all(text.as_bytes());
    written
        .and_then(|()| output.flush())
        .map_err(Failure::output)?;
    Ok(Exit::Done)
}

/// Returns a text as a string of JSON. TypeScript reads it as the same text, and Terraform too because it has no `${` and no `%{`.
fn text(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns texts as JSON strings with commas between them.
fn texts<'a>(list: impl IntoIterator<Item = &'a String>) -> String {
    let list: Vec<_> = list.into_iter().map(|each| text(each)).collect();
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_guide_names_the_actions_of_a_function() {
        let page = include_str!("../../../docs/guide/operating.md");
        let [first, others @ ..] = ACTIONS;
        let others = others.map(|action| action.trim_start_matches("dynamodb:"));
        let actions = format!(
            "four actions on the table's items: `{first}`, `{}`",
            others.join("`, `")
        );
        assert!(page.contains(&actions), "write: {actions}");
    }

    #[test]
    fn an_operator_may_send_what_the_command_sends_and_the_guide_says_so() {
        let table = include_str!("../table/dynamodb.rs").split_once("pub(super) async fn create(");
        let command = [table.unwrap().0, include_str!("../connection.rs")];
        let sent = command.concat();
        let sent = sent.split("failed(\"").skip(1);
        let sent = sent.filter_map(|rest| Some(rest.split_once('"')?.0));
        // The store sends one of these for a listing.
        let sent = sent.chain(["Scan", "Query"]);
        let sent: BTreeSet<_> = sent.map(|name| format!("dynamodb:{name}")).collect();
        let functions = ACTIONS.map(str::to_owned);
        let sent: BTreeSet<_> = sent.into_iter().chain(functions).collect();
        let allowed: BTreeSet<_> = [None, Some("sk")].into_iter().flat_map(operator).collect();
        assert_eq!(allowed, sent);

        let guide = include_str!("../../../docs/guide/operating.md");
        let lines = guide
            .lines()
            .filter(|line| line.contains("`OperatorRecords`"));
        let said: String = lines.collect();
        let beside = allowed.iter().map(String::as_str);
        for action in beside.filter(|action| !ACTIONS.contains(action)) {
            let name = action.trim_start_matches("dynamodb:");
            assert!(said.contains(&format!("{name}`")), "{name}: {said}");
        }
    }

    /// Returns the actions of the operator's policy, of which the first are those of a function.
    fn operator(sort_key: Option<&str>) -> Vec<String> {
        let description = Description {
            table: None,
            partition_key: "id".to_owned(),
            sort_key: sort_key.map(str::to_owned),
            expiration: "expiration".to_owned(),
            partition: None,
            functions: Vec::new(),
            alarms: None,
            kms_key: None,
        };
        let template: Value = serde_json::from_str(&cloudformation::json(&description)).unwrap();
        let actions = |policy: &str| -> Vec<String> {
            let policy = &template["Resources"][policy]["Properties"]["PolicyDocument"];
            serde_json::from_value(policy["Statement"][0]["Action"].clone()).unwrap()
        };
        assert_eq!(actions("FunctionRecords"), ACTIONS);
        actions("OperatorRecords")
    }
}
