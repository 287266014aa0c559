//! `idempotency table create` and `idempotency table check`.

mod check;
mod create;

pub(crate) use check::check;
pub(crate) use create::create;
