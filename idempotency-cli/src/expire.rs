//! `idempotency expire`: deletes expired rows of a table of PostgreSQL. Other databases delete them by themselves.

use std::pin::pin;

use crate::arguments::ExpireArguments;
use crate::connection::{Connection, Database};
use crate::exit::{Exit, Failure};
use crate::json;
use crate::operator::interrupted;
use crate::terminal::Progress;

pub(crate) async fn expire(
    arguments: &ExpireArguments,
    connection: &Connection,
) -> Result<Exit, Failure> {
    let Database::Postgres(store) = &connection.database else {
        let message = format!(
            "this command is about PostgreSQL, and the records are in {}: DynamoDB (by its TTL, see `idempotency table check`) and Valkey \
             delete expired records by themselves",
            connection.name()
        );
        return Err(Failure::new(Exit::Usage, message));
    };
    // One time for all pieces, so that there is an end.
    let now = connection.operator.now().floor_to_seconds();
    let (mut deleted, mut progress, mut interrupt) = (0, Progress::new(), pin!(interrupted()));
    let ended = loop {
        let left = arguments.at_most.map_or(u64::MAX, |most| most - deleted);
        let rows = arguments
            .pieces_of
            .min(u32::try_from(left).unwrap_or(u32::MAX));
        if rows == 0 {
            break Ok((Exit::Done, false));
        }
        let piece = async {
            tokio::select! {
                biased;
                () = &mut interrupt => None,
                piece = store.delete_expired(now, rows) => Some(piece),
            }
        };
        match progress.during(piece, || so_far(deleted)).await {
            None => break Ok((Exit::Interrupted, false)),
            Some(Err(error)) => break Err(error),
            Some(Ok(piece)) => {
                deleted += piece;
                if piece < u64::from(rows) {
                    break Ok((Exit::Done, true));
                }
            }
        }
    };
    let so_far = so_far(deleted);
    let (exit, is_end) = ended
        .map_err(|error| Failure::new(Exit::Failed, format_args!("{so_far}, then: {error}")))?;
    let json = || json::object().count("deleted", deleted).bool("end", is_end);
    let rest = match (exit, is_end) {
        (Exit::Interrupted, _) => "interrupted, perhaps after one more piece: run it again",
        (_, true) => "the end of what has expired",
        (_, false) => "more may have expired: run it again",
    };
    json::print(connection.json, json, format_args!("{so_far}: {rest}\n"))?;
    Ok(exit)
}

fn so_far(deleted: u64) -> String {
    format!("deleted {deleted} rows")
}
