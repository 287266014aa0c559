//! Tests of the parser of expressions.

use super::*;
use crate::{Argument, Function, Literal, Name, Part};

fn field(name: &str) -> Ast {
    Ast::Field(Name::Plain(name.to_owned()))
}

fn chain(left: Ast, right: Ast) -> Ast {
    Ast::Chain(Box::new(left), Box::new(right))
}

fn project(over: Ast, each: Ast) -> Ast {
    Ast::Project {
        over: Box::new(over),
        each: Box::new(each),
    }
}

fn part(text: &str, value: Ast) -> Part {
    Part {
        text: text.to_owned(),
        value,
    }
}

/// Returns the texts of the parts of a multi-select.
fn parts(text: &str) -> Vec<String> {
    match parse(text).unwrap() {
        Ast::List(parts) => parts.into_iter().map(|part| part.text).collect(),
        Ast::Hash(members) => members.into_iter().map(|(_, part)| part.text).collect(),
        other => panic!("{other:?} is not a multi-select"),
    }
}

#[test]
fn parts_have_the_text_that_was_written() {
    assert_eq!(parts("[ a.b , c[0] ,d]"), ["a.b", "c[0]", "d"]);
    assert_eq!(
        parts(r#"[join(',', [a, b]), {x: y, z: @}, (c | d), [[e]], 'f,]', g[-1], @, "h,i"]"#),
        [
            "join(',', [a, b])",
            "{x: y, z: @}",
            "(c | d)",
            "[[e]]",
            "'f,]'",
            "g[-1]",
            "@",
            "\"h,i\""
        ]
    );
    assert_eq!(
        parts("{a: b.c, \"d\": [e, {f: g}]}"),
        ["b.c", "[e, {f: g}]"]
    );
    // The reference needs no comma between members.
    assert_eq!(parts("{a: b c: !d e: *.f}"), ["b", "!d", "*.f"]);
    let inner = match parse("body.[a, `1`]").unwrap() {
        Ast::Chain(_, list) => match *list {
            Ast::List(parts) => parts,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!(inner[0].text, "a");
    assert_eq!(inner[1].text, "`1`");
}

/// Returns the place and the message of the error.
fn error(text: &str) -> (usize, String) {
    let error = parse(text).unwrap_err();
    (error.offset, error.message)
}

#[test]
fn names_and_literals_keep_their_text() {
    assert_eq!(
        parse(r#"{"a b": `12345678901234567890`, c: 'raw'}"#).unwrap(),
        Ast::Hash(vec![
            (
                Name::Plain("a b".into()),
                part(
                    "`12345678901234567890`",
                    Ast::Literal(Literal::Json("12345678901234567890".into()))
                )
            ),
            (
                Name::Plain("c".into()),
                part("'raw'", Ast::Literal(Literal::Raw("raw".into())))
            ),
        ])
    );
    assert_eq!(
        parse(r#""\ud83d""#),
        Ok(Ast::Field(Name::Json(r#""\ud83d""#.into())))
    );
}

#[test]
fn calls_have_their_function() {
    assert_eq!(
        parse("sort_by(@, &n)").unwrap(),
        Ast::Call {
            function: Function::SortBy,
            arguments: vec![
                Argument::Value(Ast::Current),
                Argument::Expression(field("n"))
            ],
        }
    );
}

#[test]
fn the_arguments_of_header_are_checked() {
    for valid in [
        "header(@, 'Idempotency-Key')",
        "header(event, 'x_1')",
        "[header(@, 'a'), b]",
    ] {
        assert!(parse(valid).is_ok(), "{valid}");
    }
    for (wrong, part) in [
        (
            "header(@, \"Idempotency-Key\")",
            "write it in single quotes, `header(@, 'Idempotency-Key')`",
        ),
        ("header(@, name)", "`header(@, 'name')`"),
        ("header(@, `1`)", "single quotes"),
        ("header(@, a.b)", "single quotes"),
        ("header(@, '')", "not the name of a header"),
        ("header(@, 'Idempotency Key')", "not the name of a header"),
        ("header('Idempotency-Key', 'a')", "is the event"),
        ("header('Idempotency-Key')", "takes 2 arguments"),
        ("headr(@, 'a')", "did you mean `header`"),
    ] {
        let message = error(wrong).1;
        assert!(message.contains(part), "{wrong}: {message}");
    }
}

#[test]
fn what_the_reference_accepts_is_accepted() {
    for text in [
        "length(a,)",
        "not_null(a b)",
        "{a: b c: d}",
        "a[-0]",
        "a[99999999999]",
        "a[:0 1]",
        "`foo`",
        "``",
        "(length)(a)",
    ] {
        assert!(parse(text).is_ok(), "{text}: {:?}", parse(text));
    }
}

#[test]
fn what_the_reference_refuses_is_refused_at_its_place() {
    for (text, offset) in [
        ("", 0),
        ("  ", 0),
        ("body.", 5),
        ("[a b]", 3),
        ("[ ]", 2),
        ("[a,]", 3),
        ("a.&b", 2),
        ("a[::0]", 4),
        ("a[::0].b", 4),
        ("a b", 2),
        ("\"length\"(a)", 8),
        ("&a", 0),
        ("length(&a)", 7),
        ("a ? b", 2),
        ("é", 0),
        ("nums[?a > 1]", 10),
    ] {
        assert_eq!(error(text).0, offset, "{text}: {}", error(text).1);
    }
    assert_eq!(
        error("map(a, b)").1,
        "argument 1 of `map` must be an expression; write `&` before it"
    );
    assert_eq!(
        error("not_null()").1,
        "`not_null` takes at least 1 argument, not 0"
    );
}

#[test]
fn a_slice_after_an_index_is_not_a_projection() {
    let slice = Ast::Slice {
        start: Some(0),
        stop: Some(2),
        step: 1,
    };
    let indexed = chain(field("a"), Ast::Index(0));
    assert_eq!(
        parse("a[0][0:2]"),
        Ok(chain(indexed.clone(), slice.clone()))
    );
    assert_eq!(
        parse("a[0][0:2].b"),
        Ok(chain(chain(indexed, slice.clone()), field("b")))
    );
    assert_eq!(
        parse("a[0:2].b"),
        Ok(project(chain(field("a"), slice), field("b")))
    );
}

#[test]
fn a_projection_of_values_after_a_dot_ends_at_the_next_dot() {
    let values = |name| Ast::Values(Box::new(field(name)));
    assert_eq!(
        parse("a.*.b.c"),
        Ok(chain(project(values("a"), field("b")), field("c")))
    );
    assert_eq!(
        parse("*.b.c"),
        Ok(project(
            Ast::Values(Box::new(Ast::Current)),
            chain(field("b"), field("c"))
        ))
    );
}

#[test]
fn a_projection_ends_after_braces() {
    let hash = Ast::Hash(vec![(Name::Plain("b".into()), part("c", field("c")))]);
    assert_eq!(
        parse("a[*].{b: c}.d"),
        Ok(chain(project(field("a"), hash), field("d")))
    );
    assert_eq!(parse("!a[*].{b: c}.d"), parse("(!a[*].{b: c}).d"));
    assert_ne!(parse("!a[*].{b: c}.d"), parse("!(a[*].{b: c}.d)"));
}

#[test]
fn too_deep_an_expression_is_refused_and_does_not_overflow_the_stack() {
    let small = std::thread::Builder::new().stack_size(512 * 1024);
    let checked = small.spawn(|| {
        for part in [
            "(", "!", "[", "{a:", "&", "a.", "a|", "a||", "[*]", "[]", "*.", "a[?", "abs(", "a==",
            "[0]", "[0:1]", "a.*.",
        ] {
            assert!(parse(&part.repeat(4096 / part.len())).is_err(), "{part}");
            for count in 1..200 {
                // Complete or not, it must return.
                let _ = parse(&format!("{}a", part.repeat(count)));
                let _ = parse(&format!("a{}", part.repeat(count)));
            }
        }
        let nested = |depth| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(parse(&nested(32)).is_ok());
        assert!(parse(&nested(33)).is_err());
        assert!(parse(&vec!["a"; 73].join(".")).is_ok());
        assert!(parse(&vec!["a"; 65].join("[*].")).is_err());
        assert!(parse(&vec!["a"; 73].join("||")).is_ok());
        assert!(parse(&vec!["a"; 18].join("[*].")).is_ok());
    });
    checked.unwrap().join().unwrap();
}

#[test]
fn a_long_list_of_short_paths_is_accepted() {
    let text = format!("[{}]", vec!["a.b.c"; 300].join(","));
    assert!(parse(&text).is_ok());
}
