//! The connection to the store, from the environment variables that a function reads too. For DynamoDB: the table, its client, and the
//! endpoints.

use std::error::Error as StdError;
use std::sync::Arc;

use aws_config::{BehaviorVersion, ConfigLoader, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use aws_sdk_dynamodb::error::{BoxError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::TableDescription;
use aws_types::service_config::ServiceConfigKey;
use idempotency_core::config::Variables;
use idempotency_core::store::StoreScan;
use idempotency_dynamodb::{DynamoDbStore, TableConfig, default_client};
use idempotency_lambda::stores;
use idempotency_postgres::PostgresStore;

use crate::arguments::GlobalArguments;
use crate::exit::{Exit, Failure};
use crate::operator::{Operator, ThisProcess};
use crate::terminal::visible;

/// A store, and the operator who asks for its records.
pub(crate) struct Connection {
    store: Arc<dyn StoreScan>,
    pub(crate) database: Database,
    /// True if results are printed as JSON.
    pub(crate) json: bool,
    pub(crate) operator: Box<dyn Operator>,
}

/// What the store is on, for commands that need more than its records.
pub(crate) enum Database {
    DynamoDb(Box<Table>),
    Postgres(Arc<PostgresStore>),
    Other,
}

/// A table of DynamoDB, with a client of the SDK.
pub(crate) struct Table {
    pub(crate) config: TableConfig,
    pub(crate) client: Client,
    pub(crate) store: Arc<DynamoDbStore>,
    /// True if a variable sets the value of the partition key of a composite key.
    partition_known: bool,
    sources: Sources,
}

/// Where the settings of a table come from.
struct Sources {
    table: &'static str,
    region: &'static str,
    /// The profile that a variable names, with the credentials of variables, which are used instead of its own. Those of a container
    /// or a machine are not known here.
    profile: String,
    /// The variables that can set the endpoint, with their values.
    endpoints: Vec<(&'static str, String)>,
}

impl Sources {
    fn of(global: &GlobalArguments, variables: &Variables) -> Self {
        let set = |name: &'static str| {
            let value = variables.value(name)?;
            (!value.trim().is_empty()).then(|| (name, value.to_owned()))
        };
        let first = |names: &[&'static str]| names.iter().find_map(|name| Some(set(name)?.0));
        let profile = match variables.value("AWS_PROFILE") {
            Some(profile) => format!("`{profile}` (AWS_PROFILE)"),
            None => "`default` or none (no AWS_PROFILE)".to_owned(),
        };
        Self {
            table: match global.table {
                Some(_) => "--table",
                None => "IDEMPOTENCY_TABLE",
            },
            region: first(&["AWS_REGION", "AWS_DEFAULT_REGION"])
                .unwrap_or("the profile or the machine"),
            // A key without its secret is passed over.
            profile: match set("AWS_ACCESS_KEY_ID").and(set("AWS_SECRET_ACCESS_KEY")) {
                Some(_) => format!("{profile}, but credentials from AWS_ACCESS_KEY_ID"),
                None => profile,
            },
            endpoints: [Service::DynamoDb.variable(), "AWS_ENDPOINT_URL"]
                .into_iter()
                .filter_map(set)
                .collect(),
        }
    }
}

/// The names of the kinds of stores that have a table.
pub(crate) const DYNAMODB: &str = "dynamodb";
const POSTGRES: &str = "postgres";

impl Connection {
    pub(crate) async fn open(
        global: &GlobalArguments,
        variables: &Variables,
    ) -> Result<Self, Failure> {
        let operator = Box::<ThisProcess>::default();
        match stores::chosen(variables)? {
            DYNAMODB if variables.value("IDEMPOTENCY_TABLE").is_none() => {
                let message = "no table is set: add `--table NAME`, or set IDEMPOTENCY_TABLE";
                Err(Failure::new(Exit::Usage, message))
            }
            DYNAMODB => {
                let config = default_client().await?.config().to_builder();
                let client = Client::from_conf(config.interceptor(operator.0.clone()).build());
                Self::on_table(global, variables, client, operator)
            }
            "memory" => {
                let message = "IDEMPOTENCY_STORE is `memory`: its records are in the process of the function, and no other \
                               process can read them; add `--table NAME` for a table of DynamoDB";
                Err(Failure::new(Exit::Usage, message))
            }
            POSTGRES => {
                let store = Arc::new(PostgresStore::from_variables(variables)?);
                Ok(Self {
                    store: store.clone(),
                    database: Database::Postgres(store),
                    json: global.json,
                    operator,
                })
            }
            _ => {
                let kind = stores::kind::<dyn StoreScan>(variables)?;
                Ok(Self {
                    store: (kind.open)(variables).await?,
                    database: Database::Other,
                    json: global.json,
                    operator,
                })
            }
        }
    }

    /// Returns the connection to a table of DynamoDB.
    pub(crate) fn on_table(
        global: &GlobalArguments,
        variables: &Variables,
        client: Client,
        operator: Box<dyn Operator>,
    ) -> Result<Self, Failure> {
        let config = TableConfig::from_variables(variables)?;
        let store = Arc::new(config.builder().client(client.clone()).build()?);
        let known = ["IDEMPOTENCY_STATIC_PK_VALUE", "AWS_LAMBDA_FUNCTION_NAME"];
        Ok(Self {
            store: store.clone(),
            database: Database::DynamoDb(Box::new(Table {
                partition_known: known.iter().any(|name| variables.value(name).is_some()),
                config,
                client,
                store,
                sources: Sources::of(global, variables),
            })),
            json: global.json,
            operator,
        })
    }

    /// Returns the store, for commands on records. On a table with a sort key, the partition key contains the name of the
    /// function, which an operator's machine does not know. Without this check every record would appear to be missing.
    pub(crate) fn records(&self) -> Result<&dyn StoreScan, Failure> {
        if self
            .table()
            .is_some_and(|it| it.config.sort_key.is_some() && !it.partition_known)
        {
            let message = "the table has a sort key, and the value of its partition key is not set: set \
                           IDEMPOTENCY_STATIC_PK_VALUE as the function has it, or AWS_LAMBDA_FUNCTION_NAME to the \
                           function's name";
            return Err(Failure::new(Exit::Usage, message));
        }
        Ok(&*self.store)
    }

    /// Returns the table, if the store is on DynamoDB.
    pub(crate) fn table(&self) -> Option<&Table> {
        match &self.database {
            Database::DynamoDb(table) => Some(table),
            Database::Postgres(_) | Database::Other => None,
        }
    }

    /// Returns the failure of a command on tables.
    pub(crate) fn without_a_table(&self) -> Failure {
        let store = self.name();
        let message = format!(
            "this command is about a table of DynamoDB or PostgreSQL, and IDEMPOTENCY_STORE names another kind of store, {store}: add \
             `--table NAME`, or set it to `{DYNAMODB}` or `{POSTGRES}`"
        );
        Failure::new(Exit::Usage, message)
    }

    /// Returns the name of the store.
    pub(crate) fn name(&self) -> String {
        self.store.name()
    }

    /// Returns the SDK's configuration, in the region of the table if there is one.
    pub(crate) async fn sdk_config(&self) -> SdkConfig {
        match self.table() {
            Some(table) => table.sdk_config().await,
            None => sdk_loader().load().await,
        }
    }

    /// Returns what the records are in and where that is, in lines.
    pub(crate) async fn place(&self) -> String {
        let store = line("store", &self.name());
        match &self.database {
            Database::DynamoDb(table) => table.place().await,
            Database::Postgres(it) => {
                store + &line("role", it.pool().connect_options().get_username())
            }
            Database::Other => store,
        }
    }
}

/// Returns what loads the SDK's configuration from the environment.
fn sdk_loader() -> ConfigLoader {
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(idempotency_dynamodb::http_client())
}

impl Table {
    /// Returns the SDK's configuration in the region of the client.
    async fn sdk_config(&self) -> SdkConfig {
        let region = self.client.config().region().cloned();
        sdk_loader().region(region).load().await
    }

    /// Returns the description of the table.
    pub(crate) async fn describe(&self) -> Result<TableDescription, Failure> {
        let request = self.client.describe_table().table_name(&self.config.table);
        let described = request.send().await;
        let described = described.map_err(|error| self.failed("DescribeTable", &error))?;
        described.table.ok_or_else(|| self.no_table())
    }

    /// Returns the failure of a description without a table. DynamoDB sends none.
    pub(crate) fn no_table(&self) -> Failure {
        let table = &self.config.table;
        let message = format!(
            "dynamodb:DescribeTable on the table `{table}` failed: the response has no table, so it is not from DynamoDB: \
             check the endpoint and proxies"
        );
        Failure::new(Exit::Failed, message)
    }

    /// Returns table, region, profile and endpoint in lines, each with its source. A part that cannot be found says so.
    async fn place(&self) -> String {
        let config = self.sdk_config().await;
        let region = config.region().map_or("unknown", |region| region.as_ref());
        let sources = &self.sources;
        let endpoint = match Service::DynamoDb.set_endpoint(&config) {
            Ok(Some(endpoint)) => {
                let of = sources.endpoints.iter().find(|(_, set)| *set == endpoint);
                let of = of.map_or("the profile", |(name, _)| name);
                format!("{} ({of})", without_password(&endpoint))
            }
            _ => {
                let endpoint = Service::DynamoDb.endpoint(&config).await;
                endpoint.unwrap_or_else(|error| chain(&*error))
            }
        };
        let table = format!("`{}` ({})", self.config.table, sources.table);
        [
            line("table", &table),
            line("region", &format!("{region} ({})", sources.region)),
            line("profile", &sources.profile),
            line("endpoint", &endpoint),
        ]
        .concat()
    }

    /// Returns the account of the table in one line. The credentials can belong to another one.
    pub(crate) async fn account(&self) -> String {
        let account = match self.describe().await {
            Ok(table) => {
                let account = table.table_arn().and_then(|arn| arn.split(':').nth(4));
                account.unwrap_or("unknown").to_owned()
            }
            Err(failure) => format!("unknown ({})", failure.message),
        };
        line("account", &account)
    }

    /// Returns the failure of a request about the table.
    pub(crate) fn failed<E>(&self, action: &str, error: &SdkError<E>) -> Failure
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        let table = &self.config.table;
        let why = match (error.code(), error.message()) {
            (Some(code), message) => format!("{code}: {}", message.unwrap_or("no message")),
            // The SDK lists where it looked for credentials in lines.
            (None, _) => chain(error).replace("\n ", ";"),
        };
        let why = visible(&why);
        let message = format!("dynamodb:{action} on the table `{table}` failed: {why}");
        Failure::new(Exit::Failed, message)
    }
}

/// Returns a line with a name and a value, which another program can have written.
fn line(name: &str, value: &str) -> String {
    format!("{name:<12} {}\n", visible(value))
}

/// Returns a URL without the user and the password that it can have.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

/// Iterates over an error and its causes, outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        (*error).source()
    })
}

/// Formats an error and its causes in one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let texts: Vec<_> = causes(error).map(ToString::to_string).collect();
    texts.join(": ")
}

/// A service of AWS that the command calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Service {
    DynamoDb,
    Lambda,
}

impl Service {
    /// Returns the name of the variable that sets the endpoint.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::DynamoDb => "AWS_ENDPOINT_URL_DYNAMODB",
            Self::Lambda => "AWS_ENDPOINT_URL_LAMBDA",
        }
    }

    /// Returns the endpoint that its variable, `AWS_ENDPOINT_URL` or the profile sets; `None` if none of them does.
    ///
    /// # Errors
    ///
    /// If the SDK cannot look for it.
    pub(crate) fn set_endpoint(self, config: &SdkConfig) -> Result<Option<String>, BoxError> {
        let id = match self {
            Self::DynamoDb => "DynamoDB",
            Self::Lambda => "Lambda",
        };
        let key = ServiceConfigKey::builder()
            .service_id(id)
            .env("AWS_ENDPOINT_URL")
            .profile("endpoint_url")
            .build()?;
        let services = config.service_config();
        let of_service = services.and_then(|services| services.load_config(key));
        Ok(of_service.or_else(|| config.endpoint_url().map(str::to_owned)))
    }

    /// Returns the endpoint that is set, or that of the region.
    ///
    /// # Errors
    ///
    /// If no region is set, or the region has no endpoint.
    pub(crate) async fn endpoint(self, config: &SdkConfig) -> Result<String, BoxError> {
        if let Some(endpoint) = self.set_endpoint(config)? {
            return Ok(endpoint);
        }
        let region = config.region().ok_or("no region is set")?;
        let fips = config.use_fips().unwrap_or_default();
        let dual_stack = config.use_dual_stack().unwrap_or_default();
        self.of_region(region.as_ref(), fips, dual_stack).await
    }

    /// Returns the endpoint in a region.
    ///
    /// DynamoDB's SDK has rules for the domain of each partition. The endpoint of Lambda is DynamoDB's with the other service name.
    async fn of_region(
        self,
        region: &str,
        fips: bool,
        dual_stack: bool,
    ) -> Result<String, BoxError> {
        let params = Params::builder()
            .region(region)
            .use_fips(fips)
            .use_dual_stack(dual_stack)
            .build()?;
        let endpoint = DefaultResolver::new().resolve_endpoint(&params).await?;
        if let Self::DynamoDb = self {
            return Ok(endpoint.url().to_owned());
        }
        let rest = endpoint.url().strip_prefix("https://dynamodb");
        let rest = rest.ok_or_else(|| {
            let variable = self.variable();
            format!("Lambda has no endpoint in the region `{region}`: set {variable}")
        })?;
        Ok(format!("https://lambda{rest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_partition_has_its_own_domain() {
        for (region, fips, dual_stack, expected) in [
            ("eu-central-1", false, false, "eu-central-1.amazonaws.com"),
            ("us-east-1", true, false, "us-east-1.amazonaws.com"),
            ("us-east-1", false, true, "us-east-1.api.aws"),
            ("cn-north-1", false, false, "cn-north-1.amazonaws.com.cn"),
            ("us-gov-west-1", false, false, "us-gov-west-1.amazonaws.com"),
        ] {
            let endpoint = Service::Lambda.of_region(region, fips, dual_stack);
            let service = if fips { "lambda-fips" } else { "lambda" };
            let expected = format!("https://{service}.{expected}");
            assert_eq!(endpoint.await.unwrap(), expected);
        }
        let nowhere = Service::Lambda.of_region("local", false, false);
        let error = nowhere.await.unwrap_err().to_string();
        assert!(error.contains("AWS_ENDPOINT_URL_LAMBDA"), "{error}");
    }
}
