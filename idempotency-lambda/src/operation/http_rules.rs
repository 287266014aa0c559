//! The HTTP rules of an annotated function, as the attribute wrote them and as they are compiled.

use std::borrow::Cow;
use std::sync::OnceLock;

use http::{HeaderMap, Method};
use idempotency_core::config::{ConfigurationError, Settings};
use idempotency_expression::json_pointers;
use idempotency_http::{HttpOperation, HttpOperationBuilder, Unstorable};

use crate::process;

/// The settings of `#[idempotent(http, ..)]` that other functions do not have.
#[derive(Debug)]
pub struct HttpSettings {
    /// The expression that selects the caller from the event.
    pub caller: Option<Cow<'static, str>>,
    /// True if all callers share their keys.
    pub shared_by_all_callers: Option<bool>,
    /// The header of the key.
    pub key_header: Option<Cow<'static, str>>,
    /// True if each path has its own keys.
    pub key_per_path: Option<bool>,
    /// The methods that are protected, with commas between them.
    pub methods: Option<Cow<'static, str>>,
    /// The expression that selects what is compared beside method, path, query and body.
    pub fingerprint_also: Option<Cow<'static, str>>,
    /// The JSON pointers of the members of the body that are not compared, with commas between them.
    pub fingerprint_rfc8785: Option<Cow<'static, str>>,
    /// The headers that are stored beyond the default, with commas between them.
    pub stored_headers: Option<Cow<'static, str>>,
    /// What to do with a response that cannot be stored.
    pub on_unstorable: Option<Unstorable>,
    /// The function from the headers of a request to those of a response that the handler does not make.
    pub add_headers: Option<fn(&HeaderMap) -> HeaderMap>,
}

/// The HTTP rules of an annotated function.
pub struct RegisteredHttp {
    settings: HttpSettings,
    compiled: OnceLock<HttpOperation>,
}

impl RegisteredHttp {
    /// Returns the rules that the attribute wrote.
    pub const fn new(settings: HttpSettings) -> Self {
        Self {
            settings,
            compiled: OnceLock::new(),
        }
    }

    /// Returns the user's function that makes headers for the responses that the handler does not make.
    pub(crate) fn add_headers(&self) -> Option<fn(&HeaderMap) -> HeaderMap> {
        self.settings.add_headers
    }

    /// Returns the compiled rules, or `None` if they are not compiled.
    pub(crate) fn compiled(&self) -> Option<&HttpOperation> {
        self.compiled.get()
    }

    /// Keeps the compiled rules. The operation is compiled once, so none are kept yet.
    pub(super) fn keep(&self, compiled: HttpOperation) {
        self.compiled.get_or_init(|| compiled);
    }

    /// Returns the rules of the function at `path` with these settings, before they are compiled.
    ///
    /// # Errors
    ///
    /// If a list cannot be read.
    pub(super) fn rules(
        &self,
        path: &str,
        settings: &Settings,
    ) -> Result<HttpOperationBuilder, ConfigurationError> {
        let mut rules = HttpOperation::builder(path)
            .settings(settings.clone())
            .variables(process::variables().clone());
        if let Some(header) = &self.settings.key_header {
            rules = rules.key_header(header.as_ref());
        }
        if let Some(caller) = &self.settings.caller {
            rules = rules.caller(caller.as_ref());
        }
        if let Some(per_path) = self.settings.key_per_path {
            rules = rules.key_per_path(per_path);
        }
        if let Some(list) = &self.settings.methods {
            rules = rules.methods(methods(list)?);
        }
        if let Some(part) = &self.settings.fingerprint_also {
            rules = rules.fingerprint_also(part.as_ref());
        }
        if let Some(list) = &self.settings.fingerprint_rfc8785 {
            rules = rules.fingerprint_rfc8785(pointers(list)?);
        }
        if let Some(list) = &self.settings.stored_headers {
            rules = rules.stored_headers(list.split(',').map(str::trim));
        }
        if let Some(policy) = self.settings.on_unstorable {
            rules = rules.on_unstorable(policy);
        }
        if let Some(headers) = self.settings.add_headers {
            rules = rules.add_headers(headers);
        }
        if self.settings.shared_by_all_callers == Some(true) {
            rules = rules.shared_by_all_callers();
        }
        Ok(rules)
    }
}

/// Reads a list of methods.
///
/// # Errors
///
/// If a part is no method. Methods are case-sensitive: `put` is not `PUT`, and would protect no request.
fn methods(list: &str) -> Result<Vec<Method>, ConfigurationError> {
    let methods = list.split(',').map(str::trim).map(|name| {
        let method = Method::from_bytes(name.as_bytes()).ok();
        let method = method.filter(|_| !name.contains(|letter: char| letter.is_ascii_lowercase()));
        let remedy = "write HTTP methods in capitals with commas between them, such as `POST, PUT`";
        method.ok_or_else(|| ConfigurationError::value("methods", list, remedy))
    });
    methods.collect()
}

/// Reads a list of JSON pointers.
///
/// # Errors
///
/// If a part is no JSON pointer, or has white space.
fn pointers(list: &str) -> Result<Vec<&str>, ConfigurationError> {
    json_pointers(list).map_err(|_| {
        let remedy = "write JSON pointers with commas between them and without white space in them, such as `/context, /ext`, or an \
                      empty text to leave nothing out";
        ConfigurationError::value("fingerprint_rfc8785", list, remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_pointers_is_read_or_refused() {
        assert_eq!(pointers("/a, /b/c").unwrap(), ["/a", "/b/c"]);
        assert!(pointers("").unwrap().is_empty());
        for wrong in ["a", "/a,", "/a /b", "/~2"] {
            let error = pointers(wrong).unwrap_err().to_string();
            let start = format!("fingerprint_rfc8785 is `{wrong}`: write ");
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn a_list_of_methods_is_read_or_refused() {
        assert_eq!(methods("POST, PUT").unwrap(), [Method::POST, Method::PUT]);
        for wrong in ["", "POST,", "put", "POST PUT"] {
            let error = methods(wrong).unwrap_err().to_string();
            assert!(error.contains("`POST, PUT`"), "{error}");
        }
    }
}
