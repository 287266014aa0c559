use super::*;

fn user(update: Option<&str>, condition: Option<&str>) -> UserExpressions {
    UserExpressions {
        update: update.map(str::to_owned),
        condition: condition.map(str::to_owned),
        ..UserExpressions::default()
    }
}

fn with_name(mut expressions: UserExpressions, placeholder: &str, name: &str) -> UserExpressions {
    expressions
        .names
        .insert(placeholder.to_owned(), name.to_owned());
    expressions
}

fn with_value(mut expressions: UserExpressions, placeholder: &str) -> UserExpressions {
    let value = AttributeValue::S("secret".to_owned());
    expressions.values.insert(placeholder.to_owned(), value);
    expressions
}

fn merged(text: &str) -> Result<String, InvalidExpression> {
    use crate::business::Clause;
    let mut checked = with_value(user(Some(text), None), ":n").check(|name| name == "ours")?;
    checked.clauses.add(Clause::Set, "x = :x");
    checked.clauses.add(Clause::Remove, "y");
    Ok(checked.clauses.to_string())
}

fn refusal(expressions: UserExpressions) -> String {
    let checked = expressions.check(|name| name == "ours");
    checked.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn our_actions_are_added_to_the_clauses_of_the_user() {
    let cases = [
        ("ADD units :n", "SET x = :x REMOVE y ADD units :n"),
        ("set a = a + :n", "SET a = a + :n, x = :x REMOVE y"),
        (
            "REMOVE b\nSET a = if_not_exists(a, :n), c.set = :n",
            "SET a = if_not_exists(a, :n), c.set = :n, x = :x REMOVE b, y",
        ),
        (
            "DELETE tags :n Add l[0].m :n",
            "SET x = :x REMOVE y ADD l[0].m :n DELETE tags :n",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(merged(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn an_update_expression_that_cannot_be_split_is_refused() {
    let cases = [
        ("", "must begin with"),
        ("units :n", "must begin with"),
        ("SET REMOVE a", "SET clause without an action"),
        ("SET a = :n SET b = :n", "two SET clauses"),
        ("SET a = 'b' + :n", "character at byte 8"),
        ("SET a = : + :n", "placeholder without a name at byte 8"),
        ("SET ä = :n", "character at byte 4"),
    ];
    for (text, expected) in cases {
        let error = merged(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_keyword_where_an_operand_must_be_starts_no_clause() {
    for (text, word, at) in [
        ("SET a = if_not_exists(add, :n)", "add", 22),
        ("SET a = list_append(:n, Remove)", "Remove", 24),
        ("SET a = set", "set", 8),
        ("SET a = :n + delete", "delete", 13),
        ("SET a = :n - ADD + b", "ADD", 13),
        ("SET a = :n, remove = :n", "remove", 12),
        ("REMOVE a, delete", "delete", 10),
        ("SET a = if_not_exists(b, :n ADD c :n", "ADD", 28),
    ] {
        let error = merged(text).unwrap_err().to_string();
        let place = format!("keyword `{word}` at byte {at}, where");
        let hint = format!("such as `#{}`", word.to_ascii_lowercase());
        assert!(error.contains(&place) && error.contains(&hint), "{error}");
    }
    for text in ["SET a = if_not_exists(b, :n", "SET a = b) ADD c :n"] {
        let error = merged(text).unwrap_err().to_string();
        assert!(error.contains("parentheses of the update"), "{error}");
    }
    // Behind a complete action, and as a part of a path.
    for text in [
        "SET a = if_not_exists(b, :n) REMOVE c[0] ADD d :n",
        "SET a.add = if_not_exists(b.remove, :n)",
    ] {
        assert!(merged(text).is_ok(), "{text}");
    }
}

#[test]
fn the_update_expression_leaves_our_attributes_alone() {
    for text in [
        "SET ours = :n",
        "SET a = :n REMOVE ours",
        "ADD ours[0].b :n",
    ] {
        let error = merged(text).unwrap_err().to_string();
        assert!(error.contains("the attribute `ours`"), "{text}: {error}");
    }
    let by_placeholder = with_name(user(Some("REMOVE #o"), None), "#o", "ours");
    assert!(refusal(by_placeholder).contains("the attribute `ours`"));
    // A member of another attribute may have the name, and a condition may read ours.
    assert!(merged("SET a.ours = :n").is_ok());
    let reads = user(Some("REMOVE a"), Some("attribute_exists(ours)"));
    assert!(reads.check(|name| name == "ours").is_ok());
}

#[test]
fn placeholders_are_used_and_defined_and_not_ours() {
    let update = || user(Some("SET #a = :n"), None);
    let named = || with_name(update(), "#a", "units");
    assert_eq!(
        refusal(update()),
        "the placeholder `#a` is used and not defined; nothing was sent"
    );
    assert_eq!(
        refusal(named()),
        "the placeholder `:n` is used and not defined; nothing was sent"
    );
    let more = with_value(with_value(named(), ":n"), ":m");
    assert_eq!(
        refusal(more),
        "the placeholder `:m` is defined and not used; nothing was sent"
    );
    let without_sigil = with_value(with_value(named(), ":n"), "m");
    assert!(refusal(without_sigil).contains("must be `:`"));
    let borrowed = user(Some("REMOVE a"), Some("a = :idem_k0"));
    assert!(refusal(borrowed).contains("reserved"));
    assert!(refusal(with_value(with_name(named(), "#idem_p", "a"), ":n")).contains("reserved"));
}

#[test]
fn a_condition_is_in_one_pair_of_parentheses_and_cannot_leave_it() {
    let cases = [
        ("a = b", "(a = b)"),
        ("(a = b)", "(a = b)"),
        ("(a) AND (b)", "((a) AND (b))"),
        (" size(a) <= b ", "(size(a) <= b)"),
        ("(a = b OR size(c) > d)", "(a = b OR size(c) > d)"),
    ];
    for (text, expected) in cases {
        let checked = user(None, Some(text)).check(|_| false).unwrap();
        assert_eq!(checked.condition.as_deref(), Some(expected));
    }
    for text in ["a) OR (b", "(a", "a)", "", " "] {
        assert!(user(None, Some(text)).check(|_| false).is_err(), "{text}");
    }
}

#[test]
fn debug_shows_no_value() {
    let expressions = with_value(user(Some("SET a = :n"), None), ":n");
    assert!(!format!("{expressions:?}").contains("secret"));
}

#[test]
fn an_expression_can_have_4096_bytes() {
    assert!(check_length("condition", &"x".repeat(4_096)).is_ok());
    assert!(check_length("condition", &"x".repeat(4_097)).is_err());
}
