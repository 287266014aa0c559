//! Compares responses: what two callers of one key got, or what two runs made.

use serde_json::Value;

/// The header that a replay has in addition.
const REPLAYED: &str = "idempotent-replayed";

/// Returns the response in the form in which it is compared: the JSON text in a body as JSON, and without the parts at `ignored`
/// (JSON pointers).
pub(super) fn comparable(response: &Value, ignored: &[String]) -> Value {
    let mut response = response.clone();
    if response["statusCode"].is_u64() {
        for headers in ["headers", "multiValueHeaders"] {
            if let Some(headers) = response[headers].as_object_mut() {
                headers.retain(|name, _| !name.eq_ignore_ascii_case(REPLAYED));
            }
        }
        let body = response["body"].as_str();
        if let Some(body) = body.and_then(|body| serde_json::from_str(body).ok()) {
            response["body"] = body;
        }
    }
    for pointer in ignored {
        remove(&mut response, pointer);
    }
    response
}

/// Returns true if two stored responses are the same in all parts that are compared.
pub(super) fn are_equal(a: &str, b: &str, ignored: &[String]) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (read(a), read(b)) {
        (Some(a), Some(b)) => comparable(&a, ignored) == comparable(&b, ignored),
        _ => a == b,
    }
}

/// Returns the place, as a JSON pointer, of the first difference.
pub(super) fn first_difference(a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)));
            let null = Value::Null;
            names.into_iter().find_map(|name| {
                let of =
                    |map: &serde_json::Map<String, Value>| map.get(name).unwrap_or(&null).clone();
                let below = first_difference(&of(a), &of(b))?;
                Some(format!("/{name}{below}"))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.into_iter().find_map(|(index, (a, b))| {
                let below = first_difference(a, b)?;
                Some(format!("/{index}{below}"))
            })
        }
        _ => (a != b).then(String::new),
    }
}

fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return;
    };
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => {
            members.remove(name);
        }
        Some(Value::Array(elements)) => {
            let index = name.parse().ok().filter(|index| *index < elements.len());
            if let Some(index) = index {
                let _: Value = elements.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn replayed(body: &str) -> Value {
        json!({ "statusCode": 201, "headers": { "Idempotent-Replayed": "true" }, "body": body })
    }

    #[test]
    fn a_replay_differs_from_the_first_response_in_its_header_alone() {
        let first = json!({ "statusCode": 201, "headers": {}, "body": "{\"id\":1}" });
        let same = comparable(&replayed("{ \"id\": 1 }"), &[]);
        assert_eq!(comparable(&first, &[]), same);
        let other = comparable(&replayed("{\"id\":2}"), &[]);
        assert_eq!(
            first_difference(&comparable(&first, &[]), &other).as_deref(),
            Some("/body/id")
        );
    }

    #[test]
    fn an_ignored_part_is_not_compared_also_inside_a_body() {
        let ignored = ["/body/at".to_owned(), "/at".to_owned()];
        let a = comparable(&replayed("{\"id\":1,\"at\":1}"), &ignored);
        let b = comparable(&replayed("{\"id\":1,\"at\":2}"), &ignored);
        assert_eq!(a, b);
        assert!(are_equal(
            r#"{"at":1,"id":1}"#,
            r#"{"at":2,"id":1}"#,
            &ignored
        ));
        assert!(!are_equal(
            r#"{"at":1,"id":1}"#,
            r#"{"at":1,"id":2}"#,
            &ignored
        ));
        assert!(!are_equal("no JSON", "another", &ignored));
    }

    #[test]
    fn the_first_difference_is_named_by_its_place() {
        let difference = |a: Value, b: Value| first_difference(&a, &b);
        assert_eq!(
            difference(
                json!({ "a": [1, { "b": 2 }] }),
                json!({ "a": [1, { "b": 2 }] })
            ),
            None
        );
        assert_eq!(
            difference(
                json!({ "a": [1, { "b": 2 }] }),
                json!({ "a": [1, { "b": 3 }] })
            )
            .as_deref(),
            Some("/a/1/b")
        );
        assert_eq!(
            difference(json!({}), json!({ "a": 1 })).as_deref(),
            Some("/a")
        );
        assert_eq!(difference(json!(1), json!(2)).as_deref(), Some(""));
    }
}
