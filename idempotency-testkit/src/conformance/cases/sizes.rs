//! A response of any length is read back as it was written. A record that is too large is reported as such, and changes nothing.

use super::super::trial::*;

super::cases![
    a_response_of_any_length_is_read_back_as_it_was_written,
    a_response_of_any_length_can_be_replaced,
    a_response_beyond_the_longest_is_too_large_and_changes_nothing,
    a_put_beyond_the_limit_is_too_large_and_changes_nothing,
    an_update_beyond_the_limit_is_too_large_and_changes_nothing,
    an_update_that_makes_the_whole_record_exceed_the_limit_is_too_large,
    a_claim_whose_response_was_too_large_can_be_completed_without_it,
];

/// The longest response if no limit is known, in bytes.
const LONG: usize = 300_000;

/// The most bytes that ids, names and the other attributes take.
const REST: usize = 2_048;

/// The largest record that the suite needs, in bytes: 301 KB, as `StoreLimits::record` says.
const NEEDED: usize = 301 * 1024;

fn longest(trial: &Trial) -> Check<usize> {
    match trial.factory.largest_response() {
        Some(longest) => Ok(longest),
        None => Ok(largest_record(trial)?.map_or(LONG, |bytes| bytes - REST)),
    }
}

/// Returns the limit of the store.
fn largest_record(trial: &Trial) -> Check<Option<usize>> {
    match trial.store.limits().record {
        Some(bytes) if bytes < NEEDED => broken(format!(
            "the largest record has {bytes} bytes (`Store::limits`), and the suite needs {NEEDED}"
        )),
        limit => Ok(limit),
    }
}

/// Returns responses of many lengths, around usual limits. Their letters vary, so that compression does not make them short. The
/// last response repeats one letter, so that a store that compresses makes it short.
fn responses(trial: &Trial) -> Check<Vec<String>> {
    let longest = longest(trial)?;
    let lengths = [2, 1_023, 16_384, 16_385, 100_000, 409_600, longest];
    let lengths = lengths.into_iter().filter(|length| *length <= longest);
    let varied = lengths.map(|length| json(length, true));
    Ok(varied.chain([json(longest / 2, false)]).collect())
}

/// Returns the JSON text of a string, of this length.
fn json(length: usize, varied: bool) -> String {
    let mut random = fastrand::Rng::with_seed(1);
    let letter = |_| if varied { random.lowercase() } else { 'x' };
    let letters: String = (0..length - 2).map(letter).collect();
    format!("\"{letters}\"")
}

async fn a_response_of_any_length_is_read_back_as_it_was_written(trial: &Trial) -> Check {
    for (number, data) in responses(trial)?.into_iter().enumerate() {
        let (key, mine) = (trial.key(&number.to_string()), claim(&owner(1), trial.now));
        key.place(&mine).await?;
        let change = completion(&data, trial.second());
        key.update(&change, &held_by_owner(1), Applied).await?;
        let expected = completed(&mine, &data, trial.second());
        key.finds(Some(&expected)).await?;
        // A duplicate gets it from its refused claim.
        let refused = Refused(Some(&expected));
        let again = claim(&owner(2), trial.now);
        key.put(&again, &NoRecord, refused).await?;
        let put = trial.key(&format!("{number} put"));
        put.place(&expected).await?;
        put.finds(Some(&expected)).await?;
    }
    Ok(())
}

async fn a_response_of_any_length_can_be_replaced(trial: &Trial) -> Check {
    let key = trial.key("1");
    let mine = claim(&owner(1), trial.now);
    key.place(&mine).await?;
    for length in [100_000, longest(trial)?] {
        for next in [json(length, true), "1".to_owned(), json(length, false)] {
            let change = completion(&next, trial.second());
            key.update(&change, &always(), Applied).await?;
            let expected = completed(&mine, &next, trial.second());
            key.finds(Some(&expected)).await?;
        }
    }
    Ok(())
}

async fn a_response_beyond_the_longest_is_too_large_and_changes_nothing(trial: &Trial) -> Check {
    let Some(longest) = trial.factory.largest_response() else {
        // The limit of a record is the subject of other cases.
        return Ok(());
    };
    let (key, mine) = (trial.key("1"), claim(&owner(1), trial.now));
    key.place(&mine).await?;
    let change = completion(&json(longest + 1, false), trial.second());
    too_large(&key.update_unchecked(&change, &held_by_owner(1)).await)?;
    key.finds(Some(&mine)).await
}

fn limit(trial: &Trial) -> Check<usize> {
    let none = Flaw::NotOffered("the store has no limit on a record's size (`Store::limits`)");
    largest_record(trial)?.ok_or(none)
}

fn too_large(write: &StoreReply) -> Check {
    match write {
        StoreReply::Failed {
            maybe_applied: false,
            error,
        } if error.kind() == StoreErrorKind::TooLarge => Ok(()),
        StoreReply::Failed {
            maybe_applied: true,
            error,
        } if error.kind() == StoreErrorKind::TooLarge => {
            broken("a write that was rejected because of its size was reported as maybe applied")
        }
        StoreReply::Failed { error, .. } => {
            broken(format!("it failed as {:?}: {error}", error.kind()))
        }
        StoreReply::Applied { .. } => {
            broken("it was applied, or was reported so: compare it with `Store::limits`")
        }
        other => broken(format!("it had the outcome {other:?}")),
    }
}

fn data(bytes: usize) -> String {
    "x".repeat(bytes)
}

async fn a_put_beyond_the_limit_is_too_large_and_changes_nothing(trial: &Trial) -> Check {
    let (key, limit, existing) = (trial.key("1"), limit(trial)?, claim(&owner(1), trial.now));
    let fits = with_response(existing.clone(), data(limit - REST));
    let new = with_response(existing.clone(), data(limit));
    too_large(&key.put_unchecked(&new, &NoRecord).await)?;
    key.finds(None).await?;
    key.place(&existing).await?;
    too_large(&key.put_unchecked(&new, &always()).await)?;
    key.finds(Some(&existing)).await?;
    key.place(&fits).await?;
    key.finds(Some(&fits)).await
}

async fn an_update_beyond_the_limit_is_too_large_and_changes_nothing(trial: &Trial) -> Check {
    let (key, limit, existing) = (trial.key("1"), limit(trial)?, claim(&owner(1), trial.now));
    key.place(&existing).await?;
    let change = completion(&data(limit), trial.second());
    too_large(&key.update_unchecked(&change, &always()).await)?;
    key.finds(Some(&existing)).await
}

async fn an_update_that_makes_the_whole_record_exceed_the_limit_is_too_large(
    trial: &Trial,
) -> Check {
    let (key, limit) = (trial.key("1"), limit(trial)?);
    let existing = with(claim(&owner(1), trial.now), |it| {
        it.failure = Field::Value("y".repeat(2 * REST))
    });
    key.place(&existing).await?;
    let set = with_response(Record::default(), data(limit - REST));
    let change = setting(set.clone());
    too_large(&key.update_unchecked(&change, &always()).await)?;
    key.finds(Some(&existing)).await?;
    // An attribute that is removed in the same step makes room.
    let change = Change {
        set: set.clone(),
        remove: vec![Attribute::Failure],
    };
    key.update(&change, &always(), Applied).await?;
    let expected = Record {
        failure: Field::Absent,
        data: set.data,
        ..existing
    };
    key.finds(Some(&expected)).await
}

async fn a_claim_whose_response_was_too_large_can_be_completed_without_it(trial: &Trial) -> Check {
    let (key, limit, mine) = (trial.key("1"), limit(trial)?, claim(&owner(1), trial.now));
    key.place(&mine).await?;
    let fence = held_by_owner(1);
    let mut change = completion(&data(limit), trial.second());
    too_large(&key.update_unchecked(&change, &fence).await)?;
    change.set.data = Field::Absent;
    key.update(&change, &fence, Applied).await?;
    let existing = with(completed(&mine, "", trial.second()), |it| {
        it.data = Field::Absent
    });
    key.finds(Some(&existing)).await
}
