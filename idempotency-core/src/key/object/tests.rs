//! Tests of objects.

use super::*;

fn names(object: &Object) -> Vec<&str> {
    object.keys().filter_map(Text::as_str).collect()
}

/// Returns an object of `count` members, made of a text in which each name occurs twice.
fn doubled(count: usize) -> Object {
    let value = |number: usize| Json::Int(i64::try_from(number).unwrap().into());
    (0..2 * count)
        .map(|number| (format!("{}", (number * 7) % count).into(), value(number)))
        .collect()
}

#[test]
fn few_and_many_members_are_joined_found_and_ordered_in_the_same_way() {
    for count in [1, 2, 4, 5, 8, 9, 100, 1000] {
        if count % 7 == 0 {
            continue;
        }
        let object = doubled(count);
        assert_eq!(object.len(), count);
        let ordered: Vec<_> = (0..count)
            .map(|number| ((number * 7) % count).to_string())
            .collect();
        assert_eq!(names(&object), ordered);
        for number in 0..count {
            let name = ((number * 7) % count).to_string();
            let last = Json::Int(i64::try_from(count + number).unwrap().into());
            assert_eq!(object.get(name.as_bytes()), Some(&last), "{count}: {name}");
        }
        assert_eq!(object.get(b"none"), None);
        let mut seen = Vec::new();
        object.each_by_name(|name, _| seen.push(name.clone()));
        assert!(seen.is_sorted() && seen.len() == count);
    }
}

#[test]
fn a_removed_member_is_not_found_and_the_other_members_keep_their_order() {
    let mut object = doubled(9);
    let before: Vec<_> = names(&object).into_iter().map(str::to_owned).collect();
    assert!(object.remove(b"3").is_some());
    assert_eq!(object.remove(b"3"), None);
    let after: Vec<_> = before.into_iter().filter(|name| name != "3").collect();
    assert_eq!(names(&object), after);
    assert!(object.get(b"4").is_some());
}

#[test]
fn objects_with_the_same_members_are_equal_in_any_order() {
    let of = |text: &str| Json::parse(text).unwrap();
    assert!(of(r#"{"a":1,"b":2}"#) == of(r#"{"b":2,"a":1}"#));
    assert!(of(r#"{"a":1,"b":2}"#) != of(r#"{"a":1,"c":2}"#));
    assert!(of(r#"{"a":1}"#) != of(r#"{"a":1,"b":2}"#));
}

#[test]
fn a_copy_takes_the_blocks_of_its_list_its_index_and_its_parts() {
    let members = heap(size_of::<Members>());
    assert_eq!(Object::default().heap(), 0);
    let few: Object = [
        ("a".into(), Json::Str("text".into())),
        ("b".into(), Json::Null),
    ]
    .into_iter()
    .collect();
    assert_eq!(few.heap(), members + heap(2 * 40) + 2 * heap(1) + heap(4));
    let many: Object = (0..100)
        .map(|number| (format!("{number:02}").into(), Json::Null))
        .collect();
    let index = heap(100 * 4) + heap(100);
    assert_eq!(
        many.heap(),
        members + index + heap(100 * 40) + 100 * heap(2)
    );
    for (count, overhead_of) in [
        (0, 0),
        (1, members),
        (8, members),
        (9, members + heap(36) + heap(9)),
    ] {
        assert_eq!(overhead(count), overhead_of, "{count}");
    }
}

#[test]
fn only_many_members_have_an_index() {
    for (count, indexed) in [(1, 0), (8, 0), (9, 9_usize)] {
        let object: Object = (0..count)
            .map(|number| (number.to_string().into(), Json::Null))
            .collect();
        assert_eq!(object.0.unwrap().sorted.len(), indexed, "{count}");
    }
}

#[test]
fn names_values_and_members_are_in_the_order_of_the_text() {
    let object: Object = [("b", 1), ("a", 2)]
        .into_iter()
        .map(|(name, value)| (name.into(), Json::Int(value.into())))
        .collect();
    assert!(!object.is_empty() && Object::default().is_empty());
    assert_eq!(Object::default().len(), 0);
    let values: Vec<_> = object.values().map(Json::to_canonical).collect();
    assert_eq!(
        (names(&object), values),
        (vec!["b", "a"], vec!["1".to_owned(), "2".to_owned()])
    );
    let members: Vec<_> = object
        .iter()
        .map(|(name, value)| format!("{}{}", name.as_str().unwrap(), value.to_canonical()))
        .collect();
    assert_eq!(members, ["b1", "a2"]);
    assert_eq!(object.into_entries().len(), 2);
    let mut last: Object = [("a".into(), Json::Bool(true))].into_iter().collect();
    assert_eq!(last.remove(b"a"), Some(Json::Bool(true)));
    assert!(last.is_empty());
}
