//! The password of a login: a text, or what a function returns.

use std::error::Error;
use std::fmt;
use std::future::ready;
use std::sync::Arc;

use idempotency_core::future::BoxFuture;

/// A password: a text, or a function that is called before each connection, for one that changes, such as a token of IAM.
///
/// # Examples
///
/// ```
/// use idempotency_valkey::{Password, ValkeyStore};
/// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
/// let text = Password::from("s3cr3t");
/// let store = ValkeyStore::builder("rediss://cache.example.com").user("shop").password(token).build()?;
/// # Ok::<(), idempotency_core::config::ConfigurationError>(())
/// ```
#[derive(Clone)]
pub struct Password(Arc<dyn Fn() -> Next + Send + Sync>);

type Next = BoxFuture<'static, Result<String, Box<dyn Error + Send + Sync>>>;

impl Password {
    /// Returns the password for a connection.
    ///
    /// # Errors
    ///
    /// That of the function.
    pub(crate) fn next(&self) -> Next {
        (self.0)()
    }
}

impl From<&str> for Password {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(Arc::new(move || Box::pin(ready(Ok(text.clone())))))
    }
}

impl<N, F, E> From<N> for Password
where
    N: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = Result<String, E>> + Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn from(next: N) -> Self {
        Self(Arc::new(move || {
            let next = next();
            Box::pin(async move { next.await.map_err(Into::into) })
        }))
    }
}

/// Shows no password.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}
