//! A response reads back from every form in which it is stored. A damaged one is refused. One that another program wrote is refused,
//! or is a text that Lambda could return: it never takes more memory than that.
#![no_main]

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::record::Data;
use idempotency_dynamodb::fuzzing::{Stored, response, stored};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

/// The longest response that Lambda accepts, in bytes.
const LARGEST: usize = 6_291_556;

/// Returns a text of up to about a megabyte: a part of the input, repeated.
fn text(bytes: &mut Unstructured<'_>) -> Result<String> {
    let part: String = bytes.arbitrary()?;
    let times = bytes.int_in_range(0..=1_000_000 / part.len().max(1))?;
    Ok(part.repeat(times))
}

/// Stores a response and reads it back.
fn round_trip(bytes: &mut Unstructured<'_>) -> Result<Option<Stored>> {
    let data = Data::new(text(bytes)?);
    let above = bytes
        .arbitrary::<Option<u32>>()?
        .map(|above| above as usize);
    let (split, room) = (bytes.arbitrary()?, bytes.int_in_range(0..=500_000)?);
    let Some(stored) = stored(&data, above, split, room) else {
        panic!("the response is not too long");
    };
    match response(&stored) {
        Some(read) => assert!(read == Ok(data), "another response"),
        None => {
            let text = AttributeValue::S(data.as_str().to_owned());
            assert!(stored.item == HashMap::from([("data".to_owned(), text)]));
        }
    }
    Ok((!stored.pieces.is_empty()).then_some(stored))
}

/// Changes one byte of a split response, or leaves out or repeats one piece.
fn damage(bytes: &mut Unstructured<'_>, stored: &mut Stored) -> Result<()> {
    let index = bytes.choose_index(stored.pieces.len())?;
    match bytes.int_in_range(0..=2)? {
        0 => drop(stored.pieces.remove(index)),
        1 => {
            let again = stored.pieces[index].clone();
            stored.pieces.insert(index, again);
        }
        _ => {
            let piece = &mut stored.pieces[index];
            let at = bytes.choose_index(piece.len())?;
            piece[at] ^= bytes.int_in_range(1..=u8::MAX)?;
        }
    }
    Ok(())
}

/// Returns what another program may have written.
fn foreign(bytes: &mut Unstructured<'_>) -> Result<Stored> {
    let data = [
        "compressed in data_zstd; on a table shared with another language set IDEMPOTENCY_COMPRESS_ABOVE=off",
        "split over the items of data_pieces; on a table shared with another language set IDEMPOTENCY_LARGE_RESPONSES=off",
    ];
    let data = AttributeValue::S((*bytes.choose(&data)?).to_owned());
    let mut item = HashMap::from([("data".to_owned(), data)]);
    for name in ["data_zstd", "data_pieces"] {
        let value = match bytes.int_in_range(0..=2)? {
            0 => continue,
            1 => AttributeValue::S(bytes.arbitrary()?),
            _ => AttributeValue::B(Blob::new(bytes.arbitrary::<Vec<u8>>()?)),
        };
        item.insert(name.to_owned(), value);
    }
    let pieces = vec![bytes.arbitrary()?];
    Ok(Stored { item, pieces })
}

fn check(mut bytes: Unstructured<'_>) -> Result<()> {
    if bytes.arbitrary()? {
        let foreign = foreign(&mut bytes)?;
        match response(&foreign) {
            None => panic!("the text in `data` is never the response"),
            Some(Ok(data)) => assert!(data.as_str().len() <= LARGEST),
            Some(Err(_)) => {}
        }
    } else if let Some(mut stored) = round_trip(&mut bytes)? {
        damage(&mut bytes, &mut stored)?;
        assert!(response(&stored).is_some_and(|read| read.is_err()));
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    // An input that is too short checks what it reaches.
    let _ = check(Unstructured::new(bytes));
});
