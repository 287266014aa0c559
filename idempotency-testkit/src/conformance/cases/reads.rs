//! Eventual reads: they may return an earlier state of a record, and nothing else.

use idempotency_core::record::{Record, RecordId};

use super::super::trial::{
    Checked, Expected, Trial, always, broken, claim, completed, completion, owner, shown,
};

super::cases![
    an_eventual_read_returns_a_state_that_the_record_had,
    an_eventual_read_of_an_id_without_a_record_finds_nothing,
];

/// How often each state is read: a store with several copies may read another copy each time.
const READS: usize = 8;

async fn an_eventual_read_returns_a_state_that_the_record_had(trial: &Trial) -> Checked {
    let id = trial.id("1");
    let mut states = vec![None];
    one_of(trial, &id, &states).await?;
    for round in 1..=4 {
        let claimed = claim(&owner(round), trial.at(i64::from(round)));
        trial.place(&id, &claimed).await?;
        states.push(Some(claimed.clone()));
        one_of(trial, &id, &states).await?;
        let data = format!("[{round}]");
        let change = completion(&data, trial.second());
        trial
            .update(&id, &change, &always(), Expected::Applied)
            .await?;
        states.push(Some(completed(&claimed, &data, trial.second())));
        one_of(trial, &id, &states).await?;
        if round.is_multiple_of(2) {
            trial.delete(&id, &always(), Expected::Applied).await?;
            one_of(trial, &id, &states).await?;
        }
    }
    Ok(())
}

async fn an_eventual_read_of_an_id_without_a_record_finds_nothing(trial: &Trial) -> Checked {
    let (written, unknown) = (trial.id("1"), trial.id("2"));
    trial
        .place(&written, &claim(&owner(1), trial.at(1)))
        .await?;
    one_of(trial, &unknown, &[None]).await
}

/// Checks that each of some eventual reads returns one of these states.
async fn one_of(trial: &Trial, id: &RecordId, states: &[Option<Record>]) -> Checked {
    for _ in 0..READS {
        let found = trial.reads_eventually(id).await?;
        if !states.contains(&found) {
            return broken(format!(
                "an eventual read returned {}, which the record never was",
                shown(found.as_ref())
            ));
        }
    }
    Ok(())
}
