//! The types that hold the context of an invocation.

use std::sync::Arc;

use lambda_runtime::{Context, LambdaEvent, LambdaInvocation};

/// A request or event that may hold the context of its invocation.
///
/// It is implemented for [`LambdaEvent`], for the `LambdaInvocation` of `Runtime::layer`, for [`Context`], for references,
/// `Box`, `Arc` and `Option` of these, and for `http::Request`, because `lambda_http` puts the context into its extensions.
/// Implement it for an event type of your own: then [`idempotent`](crate::idempotent) and
/// [`InvocationLayer`](crate::InvocationLayer) find the context there too.
///
/// # Examples
///
/// ```
/// use idempotency_lambda::{Context, HasContext, LambdaEvent};
///
/// struct Job {
///     id: u64,
///     context: Context,
/// }
///
/// impl HasContext for Job {
///     fn context(&self) -> Option<&Context> {
///         Some(&self.context)
///     }
/// }
///
/// let job = Job { id: 7, context: Context::default() };
/// assert!(job.context().is_some());
/// assert!(LambdaEvent::new(job.id, job.context).context().is_some());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no Lambda context",
    label = "a `lambda_runtime::Context` is needed here",
    note = "write the context of the invocation, like `context = event.context`"
)]
pub trait HasContext {
    /// Returns the context, or `None` if there is none.
    fn context(&self) -> Option<&Context>;
}

impl HasContext for Context {
    fn context(&self) -> Option<&Context> {
        Some(self)
    }
}

impl<T> HasContext for LambdaEvent<T> {
    fn context(&self) -> Option<&Context> {
        Some(&self.context)
    }
}

impl HasContext for LambdaInvocation {
    fn context(&self) -> Option<&Context> {
        Some(&self.context)
    }
}

impl<B> HasContext for http::Request<B> {
    fn context(&self) -> Option<&Context> {
        self.extensions().get()
    }
}

impl HasContext for http::request::Parts {
    fn context(&self) -> Option<&Context> {
        self.extensions.get()
    }
}

impl<T: HasContext> HasContext for Option<T> {
    fn context(&self) -> Option<&Context> {
        self.as_ref().and_then(T::context)
    }
}

macro_rules! pointers {
    ($($pointer:ty),+) => {
        $(
            impl<T: HasContext + ?Sized> HasContext for $pointer {
                fn context(&self) -> Option<&Context> {
                    T::context(self)
                }
            }
        )+
    };
}

pointers!(&T, &mut T, Box<T>, Arc<T>);

#[cfg(test)]
mod tests {
    use super::*;

    fn found<T: HasContext>(request: T) -> bool {
        request.context().is_some()
    }

    #[test]
    fn a_context_is_found_behind_every_pointer() {
        let mut event = LambdaEvent::new(1, Context::default());
        assert!(found(&mut event));
        let borrowed = &event;
        assert!(found(borrowed));
        assert!(found(Some(&event)));
        assert!(found(Box::new(event.clone())));
        assert!(found(Arc::new(event)));
        assert!(!found(None::<Context>));
    }

    #[test]
    fn an_http_request_has_the_context_that_lambda_http_puts_there() {
        let mut request = http::Request::new(());
        assert!(!found(&request));
        assert!(!found(request.clone().into_parts().0));
        request.extensions_mut().insert(Context::default());
        assert!(found(&request));
        assert!(found(request.into_parts().0));
    }
}
