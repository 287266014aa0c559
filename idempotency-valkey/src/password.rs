//! The password of a login: a text, or what a function returns.

use std::error::Error;
use std::fmt;
use std::future::ready;
use std::sync::Arc;

use idempotency_core::future::BoxFuture;

/// A password: a text, or a function that is called before each connection.
#[derive(Clone)]
pub(crate) struct Password(Arc<dyn Fn() -> Next + Send + Sync>);

type Next = BoxFuture<'static, Result<String, Box<dyn Error + Send + Sync>>>;

impl Password {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self(Arc::new(move || Box::pin(ready(Ok(text.clone())))))
    }

    pub(crate) fn from_function<F, E>(next: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self(Arc::new(move || {
            let next = next();
            Box::pin(async move { next.await.map_err(Into::into) })
        }))
    }

    /// Returns the password for a connection.
    ///
    /// # Errors
    ///
    /// That of the function.
    pub(crate) fn next(&self) -> Next {
        (self.0)()
    }
}

/// Shows no password.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}
