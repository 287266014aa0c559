//! What a JSON pointer may be, alone and in a list.

/// Returns true for the JSON pointer of a member, as RFC 6901 writes it. The pointer to the whole value is none.
pub fn is_json_pointer(text: &str) -> bool {
    let mut escapes = text.split('~').skip(1);
    text.starts_with('/') && escapes.all(|escape| escape.starts_with(['0', '1']))
}

/// Returns the JSON pointers of a list with commas between them. An empty text is an empty list.
///
/// White space is accepted only before a pointer. Inside one it is refused, because it is most likely a missing comma.
///
/// # Errors
///
/// Returns the first part of the list that is no pointer.
///
/// # Examples
///
/// ```
/// # use idempotency_expression::json_pointers;
/// assert_eq!(json_pointers("/context, /order/note"), Ok(vec!["/context", "/order/note"]));
/// assert_eq!(json_pointers("/context /order/note"), Err("/context /order/note"));
/// ```
pub fn json_pointers(list: &str) -> Result<Vec<&str>, &str> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let pointers = list.split(',').map(|part| {
        let pointer = part.trim_start();
        let is_one = is_json_pointer(pointer) && !pointer.contains(char::is_whitespace);
        is_one.then_some(pointer).ok_or(pointer)
    });
    pointers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_pointers_is_read_or_its_first_wrong_part_is_named() {
        for (list, pointers) in [
            ("", &[][..]),
            ("/a", &["/a"]),
            ("/a,/b", &["/a", "/b"]),
            (" /a/b,\n    /a~1b/~0", &["/a/b", "/a~1b/~0"]),
            ("/,//", &["/", "//"]),
        ] {
            assert_eq!(json_pointers(list).as_deref(), Ok(pointers), "{list:?}");
        }
        for (list, wrong) in [
            (" ", ""),
            ("/a,", ""),
            (",/a", ""),
            ("a", "a"),
            ("/a, b, c", "b"),
            ("/a /b", "/a /b"),
            ("/a , /b", "/a "),
            ("/a\u{a0}", "/a\u{a0}"),
            ("/a~, /b", "/a~"),
            ("/~2", "/~2"),
            ("/a~/0", "/a~/0"),
            ("#/a", "#/a"),
        ] {
            assert_eq!(json_pointers(list), Err(wrong), "{list:?}");
        }
    }
}
