//! The cases, by subject. The name of a case is the name of its function.

mod attributes;
mod boundaries;
mod conditions;
mod effects;
mod fencing;
mod foreign;
mod races;
mod scan;
mod sizes;
mod steps;
mod transactions;

use std::sync::Arc;

use idempotency_core::future::BoxFuture;

use super::trial::{Check, Trial};

/// One rule, and the function that checks it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) run: fn(Arc<Trial>) -> BoxFuture<'static, Check>,
}

/// Returns all cases.
pub(super) fn all() -> impl Iterator<Item = &'static Case> {
    [
        effects::CASES,
        conditions::CASES,
        boundaries::CASES,
        fencing::CASES,
        steps::CASES,
        attributes::CASES,
        races::CASES,
        scan::CASES,
        foreign::CASES,
        sizes::CASES,
        transactions::CASES,
    ]
    .into_iter()
    .flatten()
}

/// Lists the cases of one subject, from their functions.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        pub(super) const CASES: &[super::Case] = &[$(super::Case {
            name: stringify!($case),
            run: |trial| Box::pin(async move { $case(&trial).await }),
        }),+];
    };
}
use cases;

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_has_its_own_name() {
        let mut names: Vec<_> = super::all().map(|case| case.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
