//! Functions of each shape, as their users write them from the documents.
#![allow(clippy::unwrap_used)]

mod same_record;
