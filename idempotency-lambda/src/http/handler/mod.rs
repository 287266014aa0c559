//! Handlers of HTTP events: `#[idempotent(http, ..)]`.
//!
//! | file | what it holds |
//! |---|---|
//! | `registered` | the HTTP rules of an annotated function |
//! | `call` | the call of a handler |
//! | `request` | the request inside an event, for each kind of event |
//! | `response` | the response inside the response of a handler, for each kind of event |
//! | `headers`, `uri` | parts of both |

mod call;
mod headers;
mod registered;
mod request;
mod response;
mod uri;

pub use call::{HttpForm, PreparedHttp, prepare, run};
pub use registered::{HttpSettings, RegisteredHttp};
pub use request::HttpEvent;
pub use response::HttpResponse;
