//! The boxed future that the traits of this crate return.

use std::future::Future;
use std::pin::Pin;

/// A boxed future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
