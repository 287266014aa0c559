//! A response of any length is read back as it was written.

use idempotency_core::protocol::condition::{Condition, held_by};
use idempotency_core::record::{Data, Field, Record};
use idempotency_core::store::StoreErrorKind;
use idempotency_core::store::StoreReply;

use super::super::trial::{
    Checked, Expected, Trial, always, broken, claim, completed, completion, owner,
};
use crate::store::StoreExt;

super::cases![
    a_response_of_any_length_is_read_back_as_it_was_completed,
    a_response_of_any_length_is_read_back_as_it_was_put,
    a_response_of_any_length_can_be_replaced,
    a_response_beyond_the_longest_is_too_large_and_changes_nothing,
];

/// The longest response if the factory knows no limit, in bytes.
const LONG: usize = 300_000;

/// The most bytes that ids, names and the other attributes take.
const REST: usize = 2_048;

fn longest(trial: &Trial) -> usize {
    let factory = &trial.factory;
    let of_record = || factory.largest_record().map(|bytes| bytes - REST);
    factory
        .largest_response()
        .or_else(of_record)
        .unwrap_or(LONG)
}

/// Returns responses of many lengths, around usual limits. They are of varied letters, so that compression does not make them
/// short; one is of one letter, so that a store that compresses gets that too.
fn responses(trial: &Trial) -> Vec<Data> {
    let longest = longest(trial);
    let lengths = [2, 1_023, 16_384, 16_385, 100_000, 409_600, longest];
    let lengths = lengths.into_iter().filter(|length| *length <= longest);
    let varied = lengths.map(|length| json(length, true));
    varied.chain([json(longest / 2, false)]).collect()
}

/// Returns the JSON text of a string, of this length.
fn json(length: usize, varied: bool) -> Data {
    let mut state = 1_u64;
    let letters = (0..length - 2).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if varied {
            char::from(b'a' + (state % 26) as u8)
        } else {
            'x'
        }
    });
    Data::new(
        std::iter::once('"')
            .chain(letters)
            .chain(['"'])
            .collect::<String>(),
    )
}

async fn a_response_of_any_length_is_read_back_as_it_was_completed(trial: &Trial) -> Checked {
    for (number, data) in responses(trial).into_iter().enumerate() {
        let (id, mine) = (trial.id(&number.to_string()), claim(&owner(1), trial.now));
        trial.place(&id, &mine).await?;
        let mut change = completion("", trial.second());
        change.set.data = Field::Value(data.clone());
        trial
            .update(&id, &change, &held_by(&owner(1)), Expected::Applied)
            .await?;
        let expected = Record {
            data: Field::Value(data),
            ..completed(&mine, "", trial.second())
        };
        trial.finds(&id, Some(&expected)).await?;
        // A duplicate gets it from its refused claim.
        let refused = Expected::ConditionFailed(Some(&expected));
        let again = claim(&owner(2), trial.now);
        trial
            .put(&id, &again, &Condition::NoRecord, refused)
            .await?;
    }
    Ok(())
}

async fn a_response_of_any_length_is_read_back_as_it_was_put(trial: &Trial) -> Checked {
    for (number, data) in responses(trial).into_iter().enumerate() {
        let id = trial.id(&number.to_string());
        let record = Record {
            data: Field::Value(data),
            ..completed(&claim(&owner(1), trial.now), "", trial.second())
        };
        trial.place(&id, &record).await?;
        trial.finds(&id, Some(&record)).await?;
    }
    Ok(())
}

async fn a_response_of_any_length_can_be_replaced(trial: &Trial) -> Checked {
    let id = trial.id("1");
    let mine = claim(&owner(1), trial.now);
    trial.place(&id, &mine).await?;
    let mut expected = completed(&mine, "", trial.second());
    for length in [100_000, longest(trial)] {
        for next in [json(length, true), Data::new("1"), json(length, false)] {
            let mut change = completion("", trial.second());
            change.set.data = Field::Value(next.clone());
            trial
                .update(&id, &change, &always(), Expected::Applied)
                .await?;
            expected.data = Field::Value(next);
            trial.finds(&id, Some(&expected)).await?;
        }
    }
    Ok(())
}

async fn a_response_beyond_the_longest_is_too_large_and_changes_nothing(trial: &Trial) -> Checked {
    let Some(longest) = trial.factory.largest_response() else {
        // The limit of a record is the subject of other cases.
        return Ok(());
    };
    let (id, mine) = (trial.id("1"), claim(&owner(1), trial.now));
    trial.place(&id, &mine).await?;
    let mut change = completion("", trial.second());
    change.set.data = Field::Value(json(longest + 1, false));
    match trial.store.update(&id, &change, &held_by(&owner(1))).await {
        StoreReply::Failed {
            maybe_applied: false,
            error,
        } if error.kind() == StoreErrorKind::TooLarge => trial.finds(&id, Some(&mine)).await,
        other => broken(format!("it had the outcome {other:?}")),
    }
}
