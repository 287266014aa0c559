//! What an expression looks at in a value.
//!
//! An expression is analysed once ([`expression`](super::expression)), and the event is read by that: only what the expression
//! looks at becomes a value, and the rest is only checked. On what is left the expression has the same result as on the whole
//! event. So there is one evaluator, and its rules are not written a second time.

use super::Text;

/// What an expression looks at in a value. The rest may be left out, and the result of the expression stays the same.
///
/// The type of a value is always kept, and so are null, true and false.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Needs {
    /// Only the type.
    Kind,
    /// Some members of an object and elements of an array. Of other values only the type.
    Parts(Box<Parts>),
    /// The whole value.
    All,
}

/// The members and elements that an expression looks at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts {
    /// Each name once, sorted.
    members: Vec<(Text, Needs)>,
    /// The names of whole members whose names may be in another case.
    headers: Vec<Text>,
    pub(super) elements: Elements,
}

/// The elements of an array that an expression looks at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Elements {
    #[default]
    None,
    /// Those at these indices, sorted.
    First(Vec<(usize, Needs)>),
    /// Those at these distances from the end, sorted; 1 is the last.
    Last(Vec<(usize, Needs)>),
    /// Each of them.
    Each(Needs),
}

/// Up to this many names are compared one by one.
const FEW: usize = 8;
/// The farthest place from the end that is found while reading: the reader notes the places of this many elements.
pub(super) const WINDOW: usize = 16;

impl Needs {
    /// Returns the needs of an object in which one member is looked at.
    pub(crate) fn member(name: Text, needs: Self) -> Self {
        Self::parts(Parts {
            members: vec![(name, needs)],
            ..Parts::default()
        })
    }

    /// Returns the needs of an object in which the members of this name, in any case, are looked at.
    pub(crate) fn header(name: Text) -> Self {
        Self::parts(Parts {
            headers: vec![name],
            ..Parts::default()
        })
    }

    /// Returns the needs of an array in which one element is looked at. A negative index counts from the end.
    pub(crate) fn element(index: i64, needs: Self) -> Self {
        let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        Self::of(if index >= 0 {
            Elements::First(vec![(distance, needs)])
        } else if distance <= WINDOW {
            Elements::Last(vec![(distance, needs)])
        } else {
            Elements::Each(needs)
        })
    }

    /// Returns the needs of an array in which the elements at these indices are looked at.
    pub(crate) fn elements_at(indices: impl Iterator<Item = usize>, needs: &Self) -> Self {
        let elements = indices.map(|index| (index, needs.clone()));
        Self::of(Elements::First(elements.collect()))
    }

    /// Returns the needs of an array in which each element is looked at.
    pub(crate) fn each(needs: Self) -> Self {
        Self::of(Elements::Each(needs))
    }

    fn of(elements: Elements) -> Self {
        Self::parts(Parts {
            elements,
            ..Parts::default()
        })
    }

    fn parts(parts: Parts) -> Self {
        Self::Parts(Box::new(parts))
    }

    /// Returns which elements of an array are looked at.
    pub(super) fn elements(&self) -> &Elements {
        match self {
            Self::Kind => &Elements::None,
            Self::All => &Elements::Each(Self::All),
            Self::Parts(parts) => &parts.elements,
        }
    }

    /// Returns what is looked at in an element of the array, whichever it is.
    pub(crate) fn of_elements(&self) -> Self {
        self.elements().of_any()
    }

    /// Returns the name of the first member of `place` that is looked at by its exact name.
    pub(crate) fn exact_name_in(&self, place: &str) -> Option<&str> {
        let Self::Parts(parts) = self else {
            return None;
        };
        match parts.member(place.as_bytes())? {
            Self::Parts(inner) => inner.members.first()?.0.as_str(),
            _ => None,
        }
    }

    /// Returns how many needs there are: this one and all inside it.
    pub(crate) fn count(&self) -> usize {
        let Self::Parts(parts) = self else {
            return 1;
        };
        let members: usize = parts.members.iter().map(|(_, needs)| needs.count()).sum();
        let elements = match &parts.elements {
            Elements::None => 0,
            Elements::First(places) | Elements::Last(places) => {
                places.iter().map(|(_, needs)| needs.count()).sum()
            }
            Elements::Each(needs) => needs.count(),
        };
        1 + members + parts.headers.len() + elements
    }

    /// Returns the needs of two expressions on the same value: all that one or the other looks at.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Kind, needs) | (needs, Self::Kind) => needs,
            (Self::Parts(one), Self::Parts(other)) => Self::parts(one.and(*other)),
        }
    }
}

impl Parts {
    fn and(self, other: Self) -> Self {
        let mut headers = self.headers;
        headers.extend(other.headers);
        headers.sort_unstable();
        headers.dedup();
        Self {
            members: joined(self.members, other.members),
            headers,
            elements: self.elements.and(other.elements),
        }
    }

    /// Returns what is looked at in the member with this name; `None` if it is left out.
    pub(super) fn member(&self, name: &[u8]) -> Option<&Needs> {
        let same = |header: &Text| header.as_bytes().eq_ignore_ascii_case(name);
        if self.headers.iter().any(same) {
            return Some(&Needs::All);
        }
        let place = if self.members.len() <= FEW {
            self.members
                .iter()
                .position(|(own, _)| own.as_bytes() == name)?
        } else {
            self.members
                .binary_search_by(|(own, _)| own.as_bytes().cmp(name))
                .ok()?
        };
        self.members.get(place).map(|(_, needs)| needs)
    }

    /// Returns true if members of objects are looked at.
    pub(super) fn has_members(&self) -> bool {
        !self.members.is_empty() || !self.headers.is_empty()
    }

    /// Returns the length of the longest name, in bytes.
    pub(super) fn longest_name(&self) -> usize {
        let names = self.members.iter().map(|(name, _)| name);
        let lengths = names.chain(&self.headers).map(|name| name.as_bytes().len());
        lengths.max().unwrap_or(0)
    }
}

impl Elements {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, elements) | (elements, Self::None) => elements,
            (Self::First(one), Self::First(other)) => Self::First(joined(one, other)),
            (Self::Last(one), Self::Last(other)) => Self::Last(joined(one, other)),
            // Places from both ends need the length of the array.
            (one, other) => Self::Each(one.of_any().and(other.of_any())),
        }
    }

    /// Returns what is looked at in the element at an index; `None` if the element is left out. Only places from the end need the
    /// length of the array.
    pub(super) fn at(&self, index: usize, length: usize) -> Option<&Needs> {
        let (places, place) = match self {
            Self::None => return None,
            Self::Each(needs) => return Some(needs),
            Self::First(places) => (places, index),
            Self::Last(places) => (places, length.checked_sub(index)?),
        };
        let (farthest, _) = places.last()?;
        if place > *farthest {
            return None;
        }
        let found = places.binary_search_by_key(&place, |(place, _)| *place);
        Some(found.map_or(&Needs::Kind, |found| &places[found].1))
    }

    fn of_any(&self) -> Needs {
        match self {
            Self::None => Needs::Kind,
            Self::First(places) | Self::Last(places) => {
                let needs = places.iter().map(|(_, needs)| needs.clone());
                needs.fold(Needs::Kind, Needs::and)
            }
            Self::Each(needs) => needs.clone(),
        }
    }
}

/// Joins two lists: each key once, sorted.
fn joined<K: Ord>(one: Vec<(K, Needs)>, other: Vec<(K, Needs)>) -> Vec<(K, Needs)> {
    let mut all = one;
    all.extend(other);
    // The order of equal keys does not matter: their needs are joined.
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut joined: Vec<(K, Needs)> = Vec::with_capacity(all.len());
    for (key, needs) in all {
        match joined.last_mut() {
            Some((last, joint)) if *last == key => {
                *joint = std::mem::replace(joint, Needs::Kind).and(needs);
            }
            _ => joined.push((key, needs)),
        }
    }
    joined
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::key::{Budget, Expression, Json, JsonErrorKind};

    /// Returns the value of an expression on a payload, as text, with the missing parts, or the error.
    pub(in crate::key) fn value(expression: &Expression, payload: &Json) -> String {
        match expression.select(payload) {
            Ok(selection) => format!("{} {:?}", selection.value.to_canonical(), selection.missing),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_expression_has_the_same_value_on_what_it_looks_at() {
        let expressions = include_str!("needs/expressions.txt").lines();
        let events = include_str!("needs/events.txt").lines();
        let events: Vec<_> = events
            .chain(["{\"d\": \"\u{1}\", \"a\": 1}", "\u{feff}{}"])
            .collect();
        for text in expressions.flat_map(|line| line.split("; ")) {
            let expression = Expression::compile(text).unwrap();
            let interpreter = Expression::looking_at_all(text);
            for &event in &events {
                let read = |event: &str| {
                    let mut budget = Budget::unbounded();
                    expression.needs().read(event.as_bytes(), &mut budget)
                };
                match (Json::parse(event), read(event)) {
                    (Ok(whole), Ok(part)) => {
                        let expected = value(&interpreter, &whole);
                        assert_eq!(value(&expression, &part), expected, "{text} {event}");
                        assert_eq!(value(&expression, &whole), expected, "{text} {event}");
                    }
                    (whole, part) => assert_eq!(part.err(), whole.err(), "{text} {event}"),
                }
                if let Ok(typed) = serde_json::from_str::<serde_json::Value>(event) {
                    let whole = Json::parse(&typed.to_string()).unwrap();
                    let part = expression.needs().take(&typed, &mut Budget::unbounded());
                    let expected = value(&interpreter, &whole);
                    assert_eq!(
                        value(&expression, &part.unwrap()),
                        expected,
                        "{text} {typed}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_left_out_takes_no_memory() {
        let large = format!("[{}0]", "0,".repeat(10_000));
        let text =
            format!(r#"{{"large": {large}, "text": "{large}", "a": [{large}, 7, {large}]}}"#);
        for (expression, most) in [
            ("a[1]", 300),
            ("a[-2]", 300),
            ("a[1:2]", 300),
            ("b", 0),
            ("type(a)", 200),
        ] {
            let expression = Expression::compile(expression).unwrap();
            let mut budget = Budget::new(1_000_000);
            expression
                .needs()
                .read(text.as_bytes(), &mut budget)
                .unwrap();
            assert!(
                budget.charged() <= most,
                "{expression}: {} bytes",
                budget.charged()
            );
        }
        let whole = Needs::All.read(text.as_bytes(), &mut Budget::new(100_000));
        assert_eq!(whole.unwrap_err().kind(), JsonErrorKind::TooLarge);
    }

    #[test]
    fn the_depth_and_the_length_of_numbers_are_limited_in_what_is_left_out() {
        for needs in [
            Needs::Kind,
            Needs::member("a".into(), Needs::All),
            Needs::All,
        ] {
            let read = |text: String| needs.read(text.as_bytes(), &mut Budget::unbounded());
            let nested =
                |levels: usize| format!("{{\"b\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
            assert!(read(nested(127)).is_ok());
            assert_eq!(
                read(nested(128)).unwrap_err().kind(),
                JsonErrorKind::TooDeep
            );
            assert!(read(format!("{{\"b\":-{}}}", "9".repeat(4300))).is_ok());
            let error = read(format!("{{\"b\":-{}}}", "9".repeat(4301))).unwrap_err();
            assert_eq!(error.kind(), JsonErrorKind::NumberTooLong);
        }
    }

    #[test]
    fn a_name_is_found_among_many_and_after_a_long_escaped_one() {
        let names: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
        let expression = Expression::compile(&format!("[{}]", names.join(", "))).unwrap();
        let text = format!(
            r#"{{"{}": 1, "n7": 2, "\u006e19": 3}}"#,
            r"\u006e".repeat(100)
        );
        let part = expression
            .needs()
            .read(text.as_bytes(), &mut Budget::unbounded())
            .unwrap();
        assert_eq!(part.to_canonical(), r#"{"n19": 3, "n7": 2}"#);
    }
}
