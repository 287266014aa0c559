//! Tests of the values of the attribute's arguments. `tests/ui/fail/values.cases` has what is refused.

use quote::ToTokens;

use super::*;
use crate::arguments::Arguments;
use idempotency_expression::LONGEST_PREFIX;

fn checked(setting: &str) -> syn::Result<Value> {
    let mut arguments = Arguments::parse(setting.parse().unwrap());
    assert!(arguments.errors.is_empty(), "{setting}");
    check(arguments.all.remove(0))
}

#[test]
fn a_literal_from_a_macro_is_accepted() {
    let mut value: Expr = syn::parse_str("\"a\"").unwrap();
    value = Expr::Group(syn::ExprGroup {
        attrs: Vec::new(),
        group_token: syn::token::Group::default(),
        expr: Box::new(value),
    });
    let name = Ident::new("key", Span::call_site());
    assert!(check(Setting { name, value }).is_ok());
}

#[test]
fn each_setting_is_read() {
    for line in include_str!("read.txt").lines() {
        let (setting, expected) = line.split_once(" => ").unwrap();
        let value = match checked(setting).unwrap() {
            Value::Constant(constant) => format!("{constant:?}"),
            Value::Path(value) | Value::Payload(value) => value.to_token_stream().to_string(),
            _ => panic!("{setting} is code"),
        };
        assert_eq!(value, expected, "{setting}");
    }
}

#[test]
fn a_prefix_has_at_most_512_bytes() {
    let longest = "p".repeat(LONGEST_PREFIX);
    assert!(checked(&format!("key_prefix = \"{longest}\"")).is_ok());
    let error = checked(&format!("key_prefix = \"{longest}p\""))
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "`key_prefix`: it has 513 bytes: write at most 512"
    );
}
