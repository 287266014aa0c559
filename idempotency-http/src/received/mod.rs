//! A request in memory, and its form as an event for expressions.

mod event;

use std::borrow::Cow;
use std::fmt;

use http::request::Parts;
use serde_json::Value;

/// A request whose body is in memory, as key, caller and fingerprint are taken from it.
///
/// `Debug` shows the method, and nothing that the client sent.
///
/// # Examples
///
/// ```
/// use idempotency_http::ReceivedRequest;
///
/// let (parts, ()) = http::Request::post("/payments?dry=1").body(()).unwrap().into_parts();
/// let request = ReceivedRequest::new(&parts, b"{}");
/// assert_eq!(format!("{request:?}"), "ReceivedRequest(POST)");
/// ```
#[derive(Clone, Copy)]
pub struct ReceivedRequest<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) body: &'a [u8],
    context: Option<&'a (dyn Fn() -> Option<Value> + Send + Sync)>,
    event: Option<&'a str>,
}

impl<'a> ReceivedRequest<'a> {
    /// Returns a request of this head and this body.
    pub fn new(parts: &'a Parts, body: &'a [u8]) -> Self {
        Self {
            parts,
            body,
            context: None,
            event: None,
        }
    }

    /// Adds what the platform knows about the request: the member `requestContext` of its event.
    ///
    /// The function is called only if an expression needs the event.
    #[must_use]
    pub fn with_request_context(
        mut self,
        context: &'a (dyn Fn() -> Option<Value> + Send + Sync),
    ) -> Self {
        self.context = Some(context);
        self
    }

    /// Makes expressions see this event, a JSON text, instead of one that is made from the request.
    #[must_use]
    pub fn with_event(mut self, event: &'a str) -> Self {
        self.event = Some(event);
        self
    }

    /// Returns the JSON text that expressions see. `with_body` is false if no expression reads the body.
    pub(crate) fn event(&self, with_body: bool) -> Cow<'a, str> {
        if let Some(event) = self.event {
            return Cow::Borrowed(event);
        }
        let context = self.context.and_then(|context| context());
        Cow::Owned(event::text(
            self.parts,
            with_body.then_some(self.body),
            context,
        ))
    }
}

impl fmt::Debug for ReceivedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReceivedRequest({})", self.parts.method)
    }
}
