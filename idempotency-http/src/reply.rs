//! What a handler's run gives to the protocol, and what is sent to the client.

use std::fmt;

use bytes::Bytes;
use idempotency_core::engine::{Codec, Written};
use idempotency_core::error::Error;

use crate::stored::StoredResponse;

/// What is sent to the client.
///
/// `Debug` shows the variant, never the response.
pub enum Sent<R> {
    /// The handler's own response, unchanged.
    Own(R),
    /// A stored response, or an error of this framework.
    Made(http::Response<Bytes>),
}

/// A response in the hands of the protocol.
pub(crate) enum Reply<R> {
    /// The handler's own response, and what is stored of it.
    Own(R, Keep),
    /// The response of an earlier call.
    Replayed(StoredResponse),
}

/// What is stored of a response.
#[derive(Debug)]
pub(crate) enum Keep {
    Stored(StoredResponse),
    /// The request was not processed: nothing.
    Nothing,
    /// The response cannot be stored, and the policy is to release the claim.
    Released(&'static str),
    /// The response cannot be stored, and the policy is to complete the key.
    Completed(&'static str),
    /// The response cannot be stored, and the policy is that no client gets it.
    Refused(&'static str),
}

/// How a handler ends without a reply.
pub(crate) enum Failure<R, E> {
    /// The service's own error.
    Service(E),
    /// A response that says that the run failed. It is sent to the client.
    Response(R),
}

/// How a call ends without a reply, as the engine sees it.
///
/// It has no parameters, because a record under `on_error = "record"` holds the name of this type.
pub(crate) enum CallFailed {
    /// The handler failed: see its [`Failure`].
    Handler,
    /// An error of this framework.
    Framework(Error),
}

/// Returns the codec of a reply.
pub(crate) fn codec<R>() -> Codec<Reply<R>> {
    Codec::new(write, |text| {
        StoredResponse::from_json(text).map(Reply::Replayed)
    })
}

fn write<R>(reply: &Reply<R>) -> Written {
    match reply {
        Reply::Own(_, Keep::Stored(stored)) | Reply::Replayed(stored) => match stored.to_json() {
            Some(text) => Written::Text(text),
            None => Written::NotSerializable,
        },
        Reply::Own(_, Keep::Nothing) => Written::Release,
        Reply::Own(_, Keep::Released(why)) => Written::ReleaseWithWarning(why),
        Reply::Own(_, Keep::Completed(why) | Keep::Refused(why)) => Written::OwnCallerOnly(why),
    }
}

impl<R> fmt::Debug for Sent<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own(_) => "Own",
            Self::Made(_) => "Made",
        })
    }
}
