use serde::Serialize;
use serde_json::value::RawValue;

use super::super::tests::value;
use super::*;
use crate::key::Expression;

#[derive(Serialize)]
struct Order<'a> {
    id: u64,
    price: f32,
    total: f64,
    raw: &'a RawValue,
    /// A map whose keys are not strings or numbers cannot be written as JSON.
    unwritable: std::collections::BTreeMap<(u8, u8), u8>,
}

fn order(raw: &RawValue) -> Order<'_> {
    Order {
        id: u64::MAX,
        price: 0.1,
        total: f64::NAN,
        raw,
        unwritable: [((1, 2), 3)].into(),
    }
}

#[test]
fn a_value_is_taken_as_its_text_would_be_read() {
    let raw =
        RawValue::from_string(r#"{"b": 12345678901234567890123, "c": [1]}"#.to_owned()).unwrap();
    let order = order(&raw);
    let taken = |text: &str| {
        let expression = Expression::compile(text).unwrap();
        let parts = expression.needs().take(&order, &mut Budget::unbounded())?;
        Ok(expression.evaluate(&parts).unwrap().to_canonical())
    };
    assert_eq!(taken("id"), Ok("18446744073709551615".to_owned()));
    assert_eq!(taken("[price, total]"), Ok("[0.1, null]".to_owned()));
    assert_eq!(taken("raw.b"), Ok("12345678901234567890123".to_owned()));
    assert_eq!(
        taken("raw"),
        Ok(r#"{"b": 12345678901234567890123, "c": [1]}"#.to_owned())
    );
    assert_eq!(taken("type(raw)"), Ok(r#""object""#.to_owned()));
    assert_eq!(taken("unwritable"), Err(Unfit), "the text has the error");
    assert_eq!(taken("@"), Err(Unfit));
}

/// A number as `serde_json` writes it in a program that keeps the digits of numbers.
#[derive(Serialize)]
#[serde(rename = "$serde_json::private::Number")]
struct Digits {
    #[serde(rename = "$serde_json::private::Number")]
    digits: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "t")]
enum Tagged {
    #[serde(rename = "1")]
    Raw(Box<RawValue>),
}

#[test]
fn a_number_of_many_digits_and_a_raw_value_are_read_as_they_are_written() {
    let take = |value: &dyn Fn(&mut Budget) -> Result<Json>| value(&mut Budget::unbounded());
    for digits in ["12345678901234567890123", "1.50", "1e400", "-0"] {
        let taken = take(&|budget| Needs::All.take(&[Digits { digits }], budget));
        let text = format!("[{digits}]");
        assert_eq!(
            taken.unwrap().to_canonical(),
            Json::parse(&text).unwrap().to_canonical()
        );
    }
    let nested = format!("{}7{}", "[".repeat(127), "]".repeat(127));
    let raw = RawValue::from_string(nested).unwrap();
    assert!(take(&|budget| Needs::All.take(&[&raw], budget)).is_ok());
    assert_eq!(
        take(&|budget| Needs::All.take(&[[&raw]], budget)),
        Err(Unfit)
    );
    // `serde_json` refuses a raw value with a tag.
    let tagged = Tagged::Raw(RawValue::from_string("{}".to_owned()).unwrap());
    assert!(serde_json::to_string(&tagged).is_err());
    assert_eq!(take(&|budget| Needs::All.take(&tagged, budget)), Err(Unfit));
}

#[test]
fn a_number_of_32_bits_has_the_digits_of_its_text() {
    for number in [
        0.1_f32,
        16_777_217.0,
        1e10,
        f32::MIN_POSITIVE,
        -0.0,
        f32::INFINITY,
    ] {
        let read = Json::parse(&serde_json::to_string(&number).unwrap()).unwrap();
        let taken = Needs::All.take(&number, &mut Budget::unbounded()).unwrap();
        assert_eq!(taken.to_canonical(), read.to_canonical());
    }
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let taken = Needs::All.take(&number, &mut Budget::unbounded());
        assert_eq!(taken, Ok(Json::Null));
    }
}

/// An array that says another length than it has.
struct Promised(usize, Vec<u8>);

impl Serialize for Promised {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let mut seq = to.serialize_seq(Some(self.0))?;
        for element in &self.1 {
            serde::ser::SerializeSeq::serialize_element(&mut seq, element)?;
        }
        serde::ser::SerializeSeq::end(seq)
    }
}

#[test]
fn places_from_the_end_of_a_value_need_its_length() {
    let last = Needs::element(-2, Needs::All);
    for (promised, taken) in [
        (3, Ok("[5, 6]")),
        (2, Err(Unfit)),
        (4, Err(Unfit)),
        (0, Err(Unfit)),
    ] {
        let array = Promised(promised, vec![4, 5, 6]);
        let found = last.take(&array, &mut Budget::unbounded());
        assert_eq!(
            found.map(|json| json.to_canonical()),
            taken.map(str::to_owned)
        );
    }
}

#[derive(Serialize)]
enum Forms {
    Unit,
    Newtype(Vec<u8>),
    Tuple(u8, u128),
    Struct { a: i128, b: Option<char> },
}

#[test]
fn each_form_of_an_enum_is_taken_as_its_text_is_read() {
    let forms = [
        Forms::Unit,
        Forms::Newtype(vec![1, 2]),
        Forms::Tuple(1, u128::MAX),
        Forms::Struct {
            a: i128::MIN,
            b: Some('é'),
        },
    ];
    let text = serde_json::to_string(&forms).unwrap();
    let whole = Json::parse(&text).unwrap();
    for key in [
        "@",
        "[0]",
        "[1].Newtype[1]",
        "[1].Newtype[-1]",
        "[2].Tuple",
        "[-1].Struct.a",
        "[*].Struct.b",
        "[*].type(@)",
        "[*].type(Tuple)",
        "[1].Tuple",
        "[*].Newtype",
    ] {
        let expression = Expression::compile(key).unwrap();
        let part = expression.needs().take(&forms, &mut Budget::unbounded());
        let expected = value(&Expression::looking_at_all(key), &whole);
        assert_eq!(value(&expression, &part.unwrap()), expected, "{key}");
    }
}

#[test]
fn the_keys_of_maps_are_the_names_in_their_text() {
    fn check(map: &impl Serialize) {
        let taken = Needs::All.take(map, &mut Budget::unbounded());
        let read = Json::parse(&serde_json::to_string(map).unwrap()).unwrap();
        assert_eq!(taken.unwrap().to_canonical(), read.to_canonical());
    }
    check(&std::collections::BTreeMap::from([(u128::MAX, 1), (0, 2)]));
    check(&std::collections::BTreeMap::from([(i128::MIN, 1), (-1, 2)]));
    check(&std::collections::BTreeMap::from([(u64::MAX, 1), (7, 2)]));
    check(&std::collections::BTreeMap::from([(i64::MIN, 1), (7, 2)]));
    check(&std::collections::BTreeMap::from([(i8::MIN, 1), (7, 2)]));
    check(&std::collections::BTreeMap::from([('é', 1), ('"', 2)]));
    check(&std::collections::BTreeMap::from([("\u{1}\"", 1), ("", 2)]));
    // The text decides about a key that is seldom one.
    let truth = std::collections::BTreeMap::from([(true, 1)]);
    assert_eq!(
        Needs::All.take(&truth, &mut Budget::unbounded()),
        Err(Unfit)
    );
}

#[test]
fn a_value_beyond_the_budget_or_too_deep_is_written_as_text() {
    let long = "x".repeat(1000);
    assert_eq!(Needs::All.take(&long, &mut Budget::new(1000)), Err(Unfit));
    assert!(Needs::Kind.take(&long, &mut Budget::new(0)).is_ok());
    let mut nested = serde_json::Value::Null;
    for _ in 0..128 {
        nested = serde_json::Value::Array(vec![nested]);
    }
    assert!(Needs::All.take(&nested, &mut Budget::unbounded()).is_ok());
    let deeper = vec![nested];
    assert_eq!(
        Needs::All.take(&deeper, &mut Budget::unbounded()),
        Err(Unfit)
    );
}
