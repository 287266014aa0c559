//! Compatibility with Powertools for AWS Lambda: keys, requests and records of the libraries for other languages.
#![allow(clippy::unwrap_used)]

mod other_languages;
mod python_keys;
mod python_scenarios;
