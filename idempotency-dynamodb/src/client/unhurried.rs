//! Credentials whose load takes longer than one send.
//!
//! Credentials are loaded within the timeout of a send. A sign-in or a `credential_process` can need more time, and each send would
//! begin it again. So the next send goes on with the load that the last one left.

use std::fmt;
use std::pin::Pin;

use aws_credential_types::provider::future::ProvideCredentials as Provided;
use aws_credential_types::provider::{ProvideCredentials, Result, SharedCredentialsProvider};
use tokio::sync::Mutex;

/// A provider that does not begin a load again before the last one ended.
pub(crate) struct Unhurried {
    inner: SharedCredentialsProvider,
    /// The load that is not complete.
    load: Mutex<Option<Pin<Box<dyn Future<Output = Result> + Send>>>>,
}

impl Unhurried {
    pub(crate) fn new(inner: SharedCredentialsProvider) -> Self {
        Self {
            inner,
            load: Mutex::default(),
        }
    }

    async fn credentials(&self) -> Result {
        let mut load = self.load.lock().await;
        let going_on = load.get_or_insert_with(|| {
            let inner = self.inner.clone();
            Box::pin(async move { inner.provide_credentials().await })
        });
        let result = going_on.await;
        *load = None;
        result
    }
}

impl ProvideCredentials for Unhurried {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        Provided::new(self.credentials())
    }
}

impl fmt::Debug for Unhurried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unhurried").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use aws_credential_types::Credentials;
    use aws_credential_types::credential_fn::provide_credentials_fn;
    use futures_util::FutureExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_load_that_a_send_left_behind_goes_on_at_the_next_send() {
        let (loads, signed_in) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (counted, waiting) = (Arc::clone(&loads), Arc::clone(&signed_in));
        let slow = provide_credentials_fn(move || {
            let (load, waiting) = (
                counted.fetch_add(1, Ordering::Relaxed),
                Arc::clone(&waiting),
            );
            async move {
                waiting.acquire().await.unwrap().forget();
                Ok(Credentials::new(
                    format!("key{load}"),
                    "s",
                    None,
                    None,
                    "test",
                ))
            }
        });
        let provider = Unhurried::new(SharedCredentialsProvider::new(slow));
        for _ in 0..3 {
            // A send whose time ends.
            assert!(provider.provide_credentials().now_or_never().is_none());
        }
        signed_in.add_permits(2);
        for key in ["key0", "key1"] {
            let loaded = provider.provide_credentials().await.unwrap();
            assert_eq!(loaded.access_key_id(), key);
        }
        assert_eq!(loads.load(Ordering::Relaxed), 2);
        assert!(!format!("{provider:?}").contains("key"));
    }
}
