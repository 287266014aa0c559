//! A request in memory, and its form as an event for expressions.

mod event;

use std::fmt;

use http::request::Parts;
use serde_json::Value;

use crate::operation::RequestEvent;

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
    event: Option<&'a RequestEvent>,
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

    /// Makes expressions see this event, instead of one that is made from the request. The operation that read it must be the one
    /// that the request is for: another one refuses the request.
    #[must_use]
    pub fn with_event(mut self, event: &'a RequestEvent) -> Self {
        self.event = Some(event);
        self
    }

    /// Returns the event that was read for this request, if there is one.
    pub(crate) fn event(&self) -> Option<&'a RequestEvent> {
        self.event
    }

    /// Returns the JSON text of an event that is made from the request. Without `with_body` it has no body.
    pub(crate) fn event_text(&self, with_body: bool) -> String {
        let context = self.context.and_then(|context| context());
        event::text(self.parts, with_body.then_some(self.body), context)
    }
}

impl fmt::Debug for ReceivedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReceivedRequest({})", self.parts.method)
    }
}
