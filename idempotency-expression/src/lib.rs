//! Parses and checks the JMESPath expressions of idempotency keys, without evaluating them.
//!
//! The attribute macro checks expressions with this crate at compile time, and `idempotency-core` evaluates the same tree. So an
//! expression that compiles is accepted when the program starts.
//!
//! It is an inner part of those crates: each of their releases asks for one version of this crate, and no version number promises
//! anything about its items.
//!
//! | module | what it does |
//! |---|---|
//! | `json`, `text`, `scan` | read JSON text, which `idempotency-core` makes values of |
//! | `tokens` | splits the text into tokens, and refuses what is too long or too deep |
//! | `parse` | makes an [`Ast`] of the tokens, with the operators in the order of the reference implementation, jmespath.py |
//! | `function` | the functions and their parameters |
//! | `condition` | finds a value in a condition that is written as the name of a field |
//! | `caller` | judges values as the caller of a request |
//! | `events` | the types of events that are not the body of a record |
//! | `http_event` | where an HTTP event has its headers and its caller |
//! | `host` | the variables in which a host says what it runs |
//! | `prefix` | refuses texts that are no key prefix, and shows hidden characters as escapes |
//! | `pointer` | what a JSON pointer may be, alone and in a list |
//! | `duration` | durations, as settings have them |
//! | `settings` | the table of settings, from which both crates take names, variables and accepted values |
//!
//! # Examples
//!
//! ```
//! use idempotency_expression::parse;
//!
//! assert!(parse("powertools_json(body).[user_id, order_id]").is_ok());
//!
//! let text = "powertools_jsn(body)";
//! let error = parse(text).unwrap_err();
//! assert_eq!(error.to_string(), "unknown function `powertools_jsn`; did you mean `powertools_json`?");
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod ast;
mod caller;
mod condition;
mod duration;
mod error;
mod events;
mod function;
mod host;
mod http_event;
mod json;
mod parse;
mod pointer;
mod prefix;
pub mod scan;
mod settings;
mod text;
mod tokens;

pub use ast::{Ast, Comparator, Part};
pub use caller::{CallerFaults, advise_key, check_caller, check_caller_header};
pub use condition::refuse_condition;
pub use duration::parse_duration;
pub use error::SyntaxError;
pub use events::{event_type_in, is_event_type};
pub use function::{Function, is_token};
pub use host::HostVariables;
pub use http_event::{HEADER_PLACES, IAM_PATHS, iam_principal};
pub use json::{JsonError, JsonErrorKind, MAX_DEPTH, Scanner};
pub use parse::{parse, parse_with};
pub use pointer::{is_json_pointer, json_pointers};
pub use prefix::{LONGEST_PREFIX, is_hidden, refuse_prefix, visible};
pub use settings::{Check, SETTINGS, Scope, SettingRow};
pub use text::{Text, take_code_point};
pub use tokens::Literal;
