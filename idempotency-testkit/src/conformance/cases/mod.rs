//! The cases, by subject. A case's name is its function's.

mod attributes;
mod boundaries;
mod conditions;
mod effects;
mod fencing;
mod foreign;
mod identity;
mod late;
mod limits;
mod races;
mod refusals;

use std::sync::Arc;

use idempotency_core::future::BoxFuture;

use super::trial::{Checked, Trial};

/// One rule, and the check of it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) run: fn(Arc<Trial>) -> BoxFuture<'static, Checked>,
}

/// All cases.
pub(super) fn all() -> impl Iterator<Item = &'static Case> {
    [
        effects::CASES,
        refusals::CASES,
        conditions::CASES,
        boundaries::CASES,
        fencing::CASES,
        attributes::CASES,
        identity::CASES,
        late::CASES,
        races::CASES,
        foreign::CASES,
        limits::CASES,
    ]
    .into_iter()
    .flatten()
}

/// The cases of one subject, from its functions.
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
    fn no_two_cases_have_one_name() {
        let mut names: Vec<_> = super::all().map(|case| case.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
