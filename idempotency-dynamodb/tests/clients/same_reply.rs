//! Both clients read each body alike, also one that a proxy or a fault has changed, unless one of them refuses it.

use proptest::prelude::*;

use super::same_wire::{RequestKind, ended};
use super::script::Reply;
use super::{Kind, rows};

/// Texts that a change inserts, apart from a space. Split at spaces.
const TEXTS: &str = "{ } [ ] : , \" \\ \\u0000 \\ud800 \\u00e9 null true 1e400 -0 \n \u{feff} é {\"S\":\"x\"} \"S\":\"y\", {\"DATE\":\"x\"} \"Item\":{}, \"__type\":\"b\",";

/// A change of one place of a body.
#[derive(Clone, Debug)]
enum Change {
    Replace(usize, char),
    Insert(usize, &'static str),
    Delete(usize, usize),
    Cut(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let place = 0..220_usize;
    let texts: Vec<_> = TEXTS.split(' ').chain([" "]).collect();
    let text = prop::sample::select(texts);
    prop_oneof![
        (place.clone(), any::<char>()).prop_map(|(at, letter)| Change::Replace(at, letter)),
        (place.clone(), text).prop_map(|(at, text)| Change::Insert(at, text)),
        (place.clone(), 1..12_usize).prop_map(|(at, length)| Change::Delete(at, length)),
        place.prop_map(Change::Cut),
    ]
}

fn changed(body: &str, changes: &[Change]) -> String {
    let mut letters: Vec<char> = body.chars().collect();
    for change in changes {
        let length = letters.len();
        match change {
            Change::Replace(at, letter) if *at < length => letters[*at] = *letter,
            Change::Insert(at, text) if *at <= length => {
                letters.splice(at..at, text.chars());
            }
            Change::Delete(at, count) if *at < length => {
                letters.drain(*at..length.min(at + count));
            }
            Change::Cut(at) => letters.truncate(*at),
            _ => {}
        }
    }
    letters.into_iter().collect()
}

proptest! {
    #[test]
    fn a_changed_body_ends_alike(
        body in prop::sample::select(rows(include_str!("bodies.txt")).collect::<Vec<_>>()),
        changes in prop::collection::vec(change(), 0..3),
        status in prop::sample::select(vec![200_u16, 400]),
    ) {
        let body = changed(body, &changes);
        // A read has no condition that can fail.
        let request = if status == 200 { RequestKind::Get } else { RequestKind::Put };
        let reply = vec![Reply::new(status, &body); 3];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let [sdk, lean] = Kind::ALL.map(|kind| runtime.block_on(ended(kind, request, reply.clone())).0);
        let refuses = |end: &str| end.contains("is not from DynamoDB");
        prop_assert!(lean == sdk || refuses(&lean) != refuses(&sdk), "{lean}\n{sdk}\n{status} {body}");
    }
}
