//! Ids that differ in any byte are different records.

use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::RecordId;

use super::super::trial::{Checked, Expected, Trial, claim, owner};

super::cases![
    ids_that_share_their_parts_are_different_records,
    ids_are_compared_byte_by_byte,
    ids_with_unusual_characters_work,
    ids_of_900_bytes_that_differ_at_the_end_are_different_records,
];

/// Checks that each id has its own record: it is claimed once, read back, and deleted without the others.
async fn distinct(trial: &Trial, names: &[&str]) -> Checked {
    let ids: Vec<RecordId> = names.iter().map(|name| trial.id(name)).collect();
    let records: Vec<_> = (1_u8..)
        .take(ids.len())
        .map(|number| claim(&owner(number), trial.at(i64::from(number))))
        .collect();
    for (id, record) in ids.iter().zip(&records) {
        let put = trial
            .put(id, record, &Condition::NoRecord, Expected::Applied)
            .await;
        put.map_err(|flaw| flaw.when(format_args!("the id {id:?}")))?;
    }
    for (id, record) in ids.iter().zip(&records) {
        let found = trial.finds(id, Some(record)).await;
        found.map_err(|flaw| flaw.when(format_args!("the id {id:?}")))?;
        let (again, expected) = (
            claim(&owner(255), trial.now),
            Expected::ConditionFailed(Some(record)),
        );
        trial
            .put(id, &again, &Condition::NoRecord, expected)
            .await?;
    }
    for (index, id) in ids.iter().enumerate() {
        trial
            .delete(id, &Condition::All(Vec::new()), Expected::Applied)
            .await?;
        trial.finds(id, None).await?;
        if let (Some(next), Some(record)) = (ids.get(index + 1), records.get(index + 1)) {
            trial.finds(next, Some(record)).await?;
        }
    }
    Ok(())
}

async fn ids_that_share_their_parts_are_different_records(trial: &Trial) -> Checked {
    let names = [
        "a.f#1", "a.f#2", "a.g#1", "a#f#1", "a.f#1#", "a.f##1", "#a.f#1", "a.f", "1", "a.f#",
        "a.f#10",
    ];
    distinct(trial, &names).await
}

async fn ids_are_compared_byte_by_byte(trial: &Trial) -> Checked {
    let names = [
        "a",
        "A",
        "a ",
        " a",
        "0010",
        "10",
        "1e1",
        "é",
        "e\u{301}",
        "É",
        "ａ",
        "a\u{200b}",
    ];
    distinct(trial, &names).await
}

async fn ids_with_unusual_characters_work(trial: &Trial) -> Checked {
    let names = [
        "a b\tc\nd\re",
        "\u{1}\u{1f}\u{7f}",
        "\"'`\\",
        "../..//?x=%2F&y=+;",
        "{}[]()<>|*$^~!@,:",
        "日本語.русский.עברית",
        "👩‍👩‍👧‍👦\u{10ffff}",
        "%",
        "_",
        "*",
        "a%",
        "a_",
        "a*",
        "ab",
    ];
    distinct(trial, &names).await
}

async fn ids_of_900_bytes_that_differ_at_the_end_are_different_records(trial: &Trial) -> Checked {
    let long = "k".repeat(900);
    distinct(trial, &[&long, &format!("{long}1"), &format!("{long}2")]).await
}
