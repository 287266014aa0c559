//! The examples beside this file, which [`deploy`](../../../deploy/README.md) shows too: one function, with alarms. A template is an
//! example with other parts.

use std::cmp::Reverse;

/// Returns an example with each of these parts replaced, wherever it occurs. What replaces a part is not searched: the name of an
/// attribute may look like a part.
pub(super) fn replaced(example: &str, parts: &[(&str, String)]) -> String {
    for (part, _) in parts {
        debug_assert!(example.contains(part), "no part of the example: {part}");
    }
    let (mut text, mut rest) = (String::new(), example);
    let next = |rest: &str| {
        let found = parts.iter().enumerate();
        let found = found.filter_map(|(index, (part, _))| Some((rest.find(part)?, index)));
        found.min_by_key(|(place, index)| (*place, Reverse(parts[*index].0.len())))
    };
    while let Some((place, index)) = next(rest) {
        let (part, value) = &parts[index];
        text.push_str(&rest[..place]);
        text.push_str(value);
        rest = &rest[place + part.len()..];
    }
    text + rest
}

/// Returns the part of an example that begins with one text and ends with the next place of another.
pub(super) fn part<'a>(example: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = example.split_at(example.find(begin).unwrap_or_default());
    let length = rest.find(end).map_or(rest.len(), |place| place + end.len());
    debug_assert!(rest.starts_with(begin) && rest[..length].ends_with(end));
    &rest[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_looks_like_a_part_stays_and_the_longer_of_two_parts_counts() {
        let parts = [
            ("id", "ends".to_owned()),
            ("ends", "id".to_owned()),
            ("id:", "-".to_owned()),
        ];
        assert_eq!(replaced("id, ends, id: x", &parts), "ends, id, - x");
    }

    #[test]
    fn a_part_has_both_of_its_ends() {
        assert_eq!(part("a [b] c]", "[", "]"), "[b]");
    }
}
