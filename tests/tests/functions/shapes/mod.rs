//! Functions of each shape, as their users write them from the documents.

mod call;
mod faults;
pub(crate) mod function;
mod same_record;
