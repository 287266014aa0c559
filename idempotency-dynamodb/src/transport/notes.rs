//! Notes the sends of the SDK's client.
//!
//! The SDK calls interceptors at each step of a call. One that is configured for a single call makes the SDK merge a further
//! configuration into that call, which costs more CPU than all that the store does itself. So the interceptor is a part of the
//! client, and finds the notes of its call in a variable of the thread: the steps of a call happen while its future is polled.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::pin::Pin;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    Builder, ConfigBag, Intercept, RuntimeComponents, SharedInterceptor,
};
use aws_sdk_dynamodb::error::{BoxError, ErrorMetadata, ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::interceptors::context::Error;
use dynamodb_writes::__private::end;

use crate::sends::Sends;

thread_local! {
    /// The call whose future is polled now.
    static CURRENT: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// A call of the SDK's client, for the interceptor.
struct Call {
    sends: Sends,
    /// Returns code and message of an error of the call's operation.
    meta: fn(&Error) -> Option<&ErrorMetadata>,
}

/// Returns a client like this one whose calls are noted. `None` if it would not share connections and credentials with this one:
/// the SDK makes an HTTP client and a cache of credentials for each client that is configured without them.
pub(super) fn noting_client(client: &Client) -> Option<Client> {
    let config = client.config();
    config.http_client()?;
    config.identity_cache()?;
    let mut builder = config.to_builder();
    builder.push_interceptor(interceptor());
    Some(Client::from_conf(builder.build()))
}

/// Returns a configuration of one call, so that a call of any client is noted.
pub(super) fn noting_call() -> Builder {
    let mut builder = Builder::new();
    builder.push_interceptor(interceptor());
    builder
}

fn interceptor() -> SharedInterceptor {
    // Permanent: nothing disables it, so the SDK need not look for that before each step of the call.
    SharedInterceptor::permanent(Interceptor)
}

/// Performs a call, and notes its sends. The call must have the interceptor, from [`noting_client`] or from [`noting_call`].
pub(super) async fn noted<T, E>(
    sends: &Sends,
    mut call: Pin<&mut impl Future<Output = Result<T, SdkError<E>>>>,
) -> Result<T, SdkError<E>>
where
    E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
{
    poll_fn(|context| {
        let _entered = Entered::new(Call {
            sends: sends.clone(),
            meta: |error| error.downcast_ref::<E>().map(ProvideErrorMetadata::meta),
        });
        call.as_mut().poll(context)
    })
    .await
}

/// The poll of a call. Its end brings back the call around it, if there is one, also after a panic.
struct Entered(Option<Call>);

impl Entered {
    fn new(call: Call) -> Self {
        Self(CURRENT.replace(Some(call)))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Notes each send of the current call.
#[derive(Debug)]
struct Interceptor;

impl Intercept for Interceptor {
    fn name(&self) -> &'static str {
        "idempotency sends"
    }

    /// Shortens the timeout of each send, so that a send that hangs is repeated while the caller still waits.
    fn read_before_serialization(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // A client without a timeout keeps none: that is the user's choice.
        let Some(timeouts) = config.load::<TimeoutConfig>() else {
            return Ok(());
        };
        let Some(own) = timeouts.operation_attempt_timeout() else {
            return Ok(());
        };
        let timeout = current(|call| call.sends.timeout(own))?;
        if timeout != own {
            let changed = timeouts.to_builder().operation_attempt_timeout(timeout);
            config.interceptor_state().store_put(changed.build());
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        components: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // The SDK looks for the HTTP client after this step. Without one it sends nothing.
        if components.http_client().is_some() {
            current(|call| call.sends.starts(context.request().uri()))?;
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        current(|call| call.sends.ends(end(context, call.meta)))
    }
}

/// Uses the current call.
///
/// # Errors
///
/// If there is none. The SDK then ends the call before it sends: what is not noted must not be sent.
fn current<T>(use_it: impl FnOnce(&Call) -> T) -> Result<T, BoxError> {
    CURRENT.with_borrow(|call| match call {
        Some(call) => Ok(use_it(call)),
        None => Err("a request of the store was polled without its notes".into()),
    })
}

#[cfg(test)]
mod tests;
