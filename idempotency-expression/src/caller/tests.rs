use super::*;
use crate::parse;

fn check(text: &str) -> CallerFaults {
    check_caller(&parse(text).unwrap())
}

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split(" | ").collect())
}

#[test]
fn each_expression_is_judged_as_its_row_says() {
    for row in rows(include_str!("judged.txt")) {
        let [expected, expression, part] = row[..] else {
            panic!("{row:?}")
        };
        let expression = expression.replace('¦', "|");
        let faults = check(&expression);
        let (judged, text) = match (&faults.refused, &faults.doubted) {
            (Some(why), _) => ("refused", why.as_str()),
            (None, Some(why)) => ("doubted", why.as_str()),
            (None, None) => ("accepted", ""),
        };
        assert_eq!(judged, expected, "{expression}: {text}");
        assert!(text.contains(part), "{expression}: {text}");
    }
}

#[test]
fn each_value_of_the_table_is_found_by_its_path_and_by_the_name_of_its_header() {
    let places = [
        ("claims", "requestContext.authorizer.jwt.claims"),
        ("claims", "requestContext.authorizer.claims"),
        ("clientCert", "requestContext.authentication.clientCert"),
        ("clientCert", "requestContext.identity.clientCert"),
        ("identity", "requestContext.identity"),
        ("iam", "requestContext.authorizer.iam"),
        ("headers", "multiValueHeaders"),
    ];
    let mut found = 0;
    for row in rows(TABLE) {
        let [class, paths, text] = row[..] else {
            panic!("{row:?}")
        };
        for path in paths.split(' ') {
            let path = path.replace('*', "anything");
            let (place, name) = path.split_once('.').unwrap_or((&path, ""));
            let real = places.iter().filter(|(short, _)| *short == place);
            let mut real: Vec<_> = real
                .map(|(_, long)| format!("{long}.{name}").trim_end_matches('.').to_owned())
                .collect();
            if !matches!(place, "claims" | "clientCert" | "identity" | "iam") {
                real.push(path.clone());
            }
            for path in real {
                let quoted: Vec<_> = path.split('.').map(|name| format!("\"{name}\"")).collect();
                let expression = if path == "@" { path } else { quoted.join(".") };
                let faults = check(&expression);
                let why = if class == "doubt" {
                    faults.doubted
                } else {
                    faults.refused
                };
                assert!(why.is_some_and(|why| why.contains(text)), "{expression}");
            }
            if place == "headers" && !name.is_empty() {
                for written in [name.to_owned(), name.to_uppercase()] {
                    let faults = check(&format!("[a, header(@, '{written}')]"));
                    assert_eq!(faults.headers, BTreeSet::from([name.to_owned()]));
                    assert_eq!(
                        faults.refused.is_some(),
                        matches!(class, "changes" | "key"),
                        "{name}"
                    );
                    let faults = check_caller_header(&written);
                    assert_eq!(faults.refused.is_some(), class != "doubt", "{name}");
                    assert_eq!(faults.doubted.is_some(), class == "doubt", "{name}");
                }
            }
            found += 1;
        }
    }
    assert!(found > 150);
}

#[test]
fn each_value_of_a_session_is_found_wherever_it_is_written() {
    for (place, name) in [
        ("identity", "userArn"),
        ("identity", "accessKey"),
        ("iam", "userId"),
        ("iam", "callerId"),
    ] {
        let within = match place {
            "iam" => "requestContext.authorizer",
            _ => "requestContext",
        };
        for expression in [
            format!("{within}.{place}.{name}"),
            format!("a.sub || {within}.{place} . {name}"),
            format!("[{within}.{place}.[other, {name}], b]"),
            format!("{{u: {within}.\"{place}\".\"{name}\"}}"),
            format!("[{{u: {within}.{place}.{name}}}][0].u"),
            format!("{within}.{place}.{{a: accountId, u: to_string({name})}}"),
            format!("({within} | {place}).[accountId || {name}] | [0]"),
        ] {
            let error = check(&expression).refused.unwrap();
            assert!(error.contains(&format!("`{place}.{name}`")), "{expression}");
        }
    }
}

#[test]
fn the_advice_on_a_key_is_about_what_changes_and_about_joined_texts() {
    for (key, part) in [
        (
            "[requestContext.requestId, body]",
            "is new with each request",
        ),
        ("requestContext.identity", "write `iam_caller(@)`"),
        ("join('|', [a, b])", "`join` makes one text"),
        ("[a, join('#', [b.c, d])]", "`join` makes one text"),
        (
            "[Records[0].receiptHandle]",
            "is another one in each delivery",
        ),
        ("'order_id'", "takes nothing from the payload"),
        ("`1`", "takes nothing from the payload"),
        (
            "['shop', {a: amount > `1`}]",
            "takes nothing from the payload",
        ),
    ] {
        let advice = advise_key(&parse(key).unwrap(), false).unwrap();
        assert!(advice.contains(part), "{advice}");
    }
    assert_eq!(advise_key(&parse("'all'").unwrap(), true), None);
    for key in [
        "@",
        "['shop', order_id]",
        "coupon || 'none'",
        "body",
        "[requestContext.accountId, rawPath]",
        "header(@, 'Idempotency-Key')",
        "headers.\"x-request-id\"",
        "join(',', items[].id)",
        "length(items)",
        "detail.requestContext.requestId",
    ] {
        assert_eq!(advise_key(&parse(key).unwrap(), false), None, "{key}");
    }
}

#[test]
fn a_long_expression_is_judged_in_bounds() {
    let names: Vec<_> = (0..30).map(|at| format!("n{at}")).collect();
    let list = format!("[{}]", names.join(", "));
    assert_eq!(check(&vec![list; 5].join(".")), CallerFaults::default());
    let long = "a.".repeat(50) + "b";
    assert_eq!(check(&long), CallerFaults::default());
}
