//! HTTP on Lambda: what a client gets through API Gateway (both payload formats), a load balancer and a function URL.
//!
//! | file | what it holds |
//! |---|---|
//! | `functions` | the functions: the layer around an axum `Router` and a service of `lambda_http`, and annotated handlers |
//! | `harness` | a process of a function with a table of its own; the sources of requests |
//! | `responses` | each response of the draft, header by header, for each function and source; errors, bodies, callers, and what never reaches the log |
//! | `building` | the settings: prefixes, variables, other stores |
//! | `keys` | the records of the attribute, of the layer and of a plain function |

mod building;
pub(crate) mod functions;
mod harness;
mod keys;
mod responses;
