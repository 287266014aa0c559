//! The columns of the table, and the form of each value in them.

use std::borrow::Cow;

use idempotency_core::record::{
    Attribute, Columns, Data, Field, FieldValue, Record, RecordedSteps, StoredEvent,
};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

/// The column of the record id.
pub(crate) const ID: &str = "id";

/// Returns the type of the column of an attribute, as PostgreSQL prints it. Its name is that of the attribute.
pub(crate) const fn type_of(attribute: Attribute) -> &'static str {
    use Attribute::{
        Data, Decision, Event, Expiration, Failure, InProgressExpiration, Operation, Owner, Status,
        Steps, Undo, Validation,
    };
    match attribute {
        Expiration | InProgressExpiration => "bigint",
        Status | Data | Validation | Owner | Failure | Operation | Decision | Event | Undo => {
            "text"
        }
        Steps => "text[]",
    }
}

/// Returns an expression with a text and these attributes, as one array: the server sets up each column of a reply anew, at each node of its plan.
/// [`read`] reads it. Others are NULL. The elements of the steps are the last ones.
pub(crate) fn list(flag: &str, of: impl Fn(Attribute) -> bool) -> String {
    let elements = Attribute::ALL.map(|attribute| {
        let name = attribute.default_name();
        match type_of(attribute) {
            _ if !of(attribute) => "NULL".to_owned(),
            "text" => name.to_owned(),
            "bigint" => format!("{name}::text"),
            _ => format!("CASE WHEN {name} IS NOT NULL THEN '' END"),
        }
    });
    let list = format!("ARRAY[{flag}, {}]", elements.join(", "));
    if !of(Attribute::Steps) {
        return list;
    }
    let steps = Attribute::Steps.default_name();
    // Arrays inside of an array cannot follow a list. NULL is no name of a step, so such steps cannot be read.
    format!("{list} || CASE WHEN array_ndims({steps}) > 1 THEN '{{NULL}}' ELSE {steps} END")
}

/// Returns true for what a read brings back: all but the event, for which no rule of the protocol asks.
pub(crate) fn is_read(attribute: Attribute) -> bool {
    attribute != Attribute::Event
}

/// A value in the form of its column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(i64),
    Text(Cow<'a, str>),
    Texts(Vec<Cow<'a, str>>),
}

impl<'a> From<FieldValue<'a>> for Value<'a> {
    fn from(value: FieldValue<'a>) -> Self {
        match value {
            FieldValue::Seconds(at) => Self::Number(at.get()),
            FieldValue::Millis(at) => Self::Number(at.get()),
            FieldValue::Text(text) => Self::Text(stored(text)),
            FieldValue::Data(data) => Self::Text(stored(data.as_str())),
            FieldValue::Event(event) => Self::Text(stored(event.stored())),
            FieldValue::Steps(steps) => {
                let pairs = steps.iter().map(|(name, result)| step(name, result));
                Self::Texts(pairs.flatten().collect())
            }
        }
    }
}

/// Returns the two elements that a step adds to the column of the steps.
pub(crate) fn step<'a>(name: &'a str, result: &'a Data) -> [Cow<'a, str>; 2] {
    [stored(name), stored(result.as_str())]
}

/// Returns the text that is stored for a text.
///
/// A text of PostgreSQL has no U+0000. So U+0000 is stored as U+0001 U+0001, and U+0001 as U+0001 U+0002: two texts that differ
/// stay different, and keep their order.
pub(crate) fn stored(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte <= 1) {
        return Cow::Borrowed(text);
    }
    let stored = text.replace('\u{1}', "\u{1}\u{2}");
    Cow::Owned(stored.replace('\0', "\u{1}\u{1}"))
}

/// Returns the text for which this one is stored.
pub(crate) fn restored(text: String) -> String {
    if !text.contains('\u{1}') {
        return text;
    }
    // No pair of another letter ends with the first of these, so each is found where it was stored.
    let restored = text.replace("\u{1}\u{1}", "\0");
    restored.replace("\u{1}\u{2}", "\u{1}")
}

/// Returns the text of a row of a reply, and its record, if there is one. `None` if the first column is not a [`list`], or its text alone.
pub(crate) fn read(row: &PgRow) -> Option<(Option<String>, Option<Record>)> {
    let mut elements = Elements(row.try_get(0).ok()?);
    let flag = elements.0.first_mut()?.take();
    let is_record = elements.0.len() > Attribute::ALL.len();
    Some((flag, is_record.then(|| Record::read(&mut elements))))
}

struct Elements(Vec<Option<String>>);

impl Elements {
    fn take(&mut self, attribute: Attribute) -> Field<String> {
        Field::from(self.0[1 + attribute as usize].take())
    }
}

impl Columns for Elements {
    fn number(&mut self, attribute: Attribute) -> Field<i64> {
        self.take(attribute).and_then(|text| text.parse().ok())
    }

    fn text(&mut self, attribute: Attribute) -> Field<String> {
        self.take(attribute).map(restored)
    }

    fn steps(&mut self, attribute: Attribute) -> Field<RecordedSteps> {
        let elements = self.0.split_off(1 + Attribute::ALL.len());
        self.take(attribute).and_then(|_| steps(elements))
    }

    fn event(&mut self, attribute: Attribute) -> Field<StoredEvent> {
        self.text(attribute)
            .and_then(|text| StoredEvent::from_stored(&text))
    }
}

/// Returns the steps of an array. `None` if it has a name without a result, or NULL.
fn steps(elements: Vec<Option<String>>) -> Option<RecordedSteps> {
    let mut steps = RecordedSteps::default();
    let mut elements = elements.into_iter();
    while let Some(name) = elements.next() {
        steps.insert(restored(name?), Data::new(restored(elements.next()??)));
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_a_null_character_are_stored_as_they_are() {
        for text in ["", "a", "é\t\r\n\u{2}", "日本語"] {
            assert!(matches!(stored(text), Cow::Borrowed(same) if same == text));
            assert_eq!(restored(text.to_owned()), text);
        }
    }

    #[test]
    fn every_text_is_restored_and_the_order_of_two_is_kept() {
        let letters = ['\0', '\u{1}', '\u{2}', 'a'];
        let mut texts = vec![String::new()];
        for length in 0..4 {
            let longest: Vec<_> = texts
                .iter()
                .filter(|it| it.len() == length)
                .cloned()
                .collect();
            for text in longest {
                texts.extend(letters.map(|letter| format!("{text}{letter}")));
            }
        }
        assert_eq!(texts.len(), 1 + 4 + 16 + 64 + 256);
        for text in &texts {
            let kept = stored(text);
            assert!(!kept.contains('\0'));
            assert_eq!(restored(kept.into_owned()), *text);
            for other in &texts {
                assert_eq!(
                    stored(text).cmp(&stored(other)),
                    text.cmp(other),
                    "{text:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn a_mark_of_another_program_is_read_as_it_is() {
        assert_eq!(restored("a\u{1}b".to_owned()), "a\u{1}b");
        assert_eq!(restored("a\u{1}".to_owned()), "a\u{1}");
    }

    #[test]
    fn steps_are_pairs_and_the_last_result_of_a_name_counts() {
        let read =
            |elements: &[&str]| steps(elements.iter().map(|it| Some((*it).to_owned())).collect());
        assert_eq!(read(&[]), Some(RecordedSteps::default()));
        let pairs = [
            ("a".to_owned(), Data::new("3")),
            ("b".to_owned(), Data::new("2")),
        ];
        assert_eq!(
            read(&["a", "1", "b", "2", "a", "3"]),
            Some(pairs.into_iter().collect())
        );
        assert_eq!(read(&["a"]), None);
    }

    #[test]
    fn the_migration_has_each_column_with_its_type() {
        let columns: Vec<_> = crate::MIGRATION
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| !line.starts_with("--"))
            .map(|line| line.trim_end_matches(',').replace(" COLLATE \"C\"", ""))
            .collect();
        let typed = Attribute::ALL.map(|it| format!("{} {}", it.default_name(), type_of(it)));
        assert_eq!(columns[0], "id text PRIMARY KEY");
        assert_eq!(columns[1..], typed);
    }
}
