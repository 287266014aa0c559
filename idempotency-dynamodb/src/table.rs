//! The table of a store, as error texts name it.

use std::fmt;
use std::sync::OnceLock;

/// The table of a store.
#[derive(Clone, Debug)]
pub(crate) struct TableRef {
    /// The name or ARN of the table.
    pub(crate) name: String,
    pub(crate) region: String,
    /// The name of the sort key, if the table has one.
    pub(crate) sort_key: Option<String>,
    /// The name of the partition key.
    pub(crate) key: String,
    /// Where requests are sent, as `https://host`. Set by the first request.
    pub(crate) endpoint: OnceLock<String>,
}

impl fmt::Display for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DynamoDB table `{}` in {}", self.name, self.region)?;
        match self.configured_endpoint() {
            Some(endpoint) => write!(f, " at {endpoint}"),
            None => Ok(()),
        }
    }
}

impl TableRef {
    /// Returns the endpoint if it was configured instead of the one of the region. It can be the cause of a failure.
    pub(crate) fn configured_endpoint(&self) -> Option<&str> {
        let endpoint = self.endpoint.get()?;
        (!is_of_aws(endpoint)).then_some(endpoint)
    }

    /// Notes the endpoint of a request.
    pub(crate) fn note_endpoint(&self, uri: &str) {
        self.endpoint.get_or_init(|| origin(uri));
    }

    /// Describes the key attributes, for an error about a wrong schema.
    pub(crate) fn keys(&self) -> String {
        match &self.sort_key {
            None => format!("the partition key `{}` of type S only", self.key),
            Some(sort_key) => {
                format!(
                    "the partition key `{}` and the sort key `{sort_key}`, both of type S",
                    self.key
                )
            }
        }
    }
}

/// Returns scheme, host and port of a URI, without its path and without credentials.
pub(crate) fn origin(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("https", uri));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

/// Returns true if this is an endpoint of AWS.
pub(crate) fn is_of_aws(endpoint: &str) -> bool {
    [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"]
        .iter()
        .any(|domain| endpoint.ends_with(domain))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn table() -> TableRef {
        TableRef {
            name: "payments".to_owned(),
            region: "eu-west-1".to_owned(),
            sort_key: None,
            key: "id".to_owned(),
            endpoint: OnceLock::new(),
        }
    }

    #[test]
    fn an_endpoint_is_named_without_its_path_and_without_credentials() {
        for (uri, named) in [
            ("http://localhost:8000/", "http://localhost:8000"),
            ("https://user:word@proxy.local/a?b", "https://proxy.local"),
        ] {
            let table = table();
            table.note_endpoint(uri);
            let end = format!("in eu-west-1 at {named}");
            assert!(table.to_string().ends_with(&end), "{table}");
        }
    }
}
