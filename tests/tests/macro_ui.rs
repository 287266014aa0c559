//! What `#[idempotent]` accepts and what it refuses, with the compiler's own words. After a change that is meant:
//! `TRYBUILD=overwrite cargo test -p idempotency-tests --test macro_ui`, then read the difference.
#![allow(clippy::unwrap_used)]

#[test]
fn the_attribute_takes_what_is_right_and_points_at_what_is_wrong() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
