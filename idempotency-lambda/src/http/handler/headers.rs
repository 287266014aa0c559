//! Headers of events, which have two fields for them: one with single values and one with all values.

use http::{HeaderMap, HeaderValue};

/// Returns the headers of both fields. A header that is in both has the values of the field with all values.
pub(super) fn merged(all: &HeaderMap, single: &HeaderMap) -> HeaderMap {
    let mut headers = all.clone();
    for (name, value) in single {
        if !all.contains_key(name) {
            headers.append(name, value.clone());
        }
    }
    headers
}

/// Returns one value for each header: several values are joined with commas, as HTTP allows for the headers that are stored.
pub(super) fn joined(headers: &HeaderMap) -> HeaderMap {
    let mut joined = HeaderMap::new();
    for name in headers.keys() {
        let values = headers.get_all(name).iter().map(HeaderValue::as_bytes);
        let values: Vec<_> = values.collect();
        // It cannot fail, because each part is the value of a header.
        if let Ok(value) = HeaderValue::from_bytes(&values.join(&b", "[..])) {
            joined.insert(name, value);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn a_header_in_both_fields_has_all_its_values_once() {
        let all = map(&[("idempotency-key", "a"), ("idempotency-key", "b")]);
        let single = map(&[("idempotency-key", "b"), ("host", "h")]);
        let merged = merged(&all, &single);
        let expected = [
            ("idempotency-key", "a"),
            ("idempotency-key", "b"),
            ("host", "h"),
        ];
        assert_eq!(merged, map(&expected));
    }

    #[test]
    fn several_values_are_joined_and_one_value_stays() {
        let joined = joined(&map(&[("vary", "a"), ("vary", "b"), ("location", "/x, y")]));
        assert_eq!(joined, map(&[("vary", "a, b"), ("location", "/x, y")]));
    }
}
