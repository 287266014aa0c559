//! The message for a name that is no setting: it says which setting the user probably means.

use idempotency_expression::{Scope, SettingRow};

/// Settings that only the environment has, as a user may try to write them here.
const ENVIRONMENT: &str = "table table_name key_attr expiry_attr in_progress_expiry_attr status_attr data_attr validation_attr \
    sort_key_attr static_pk_value disabled enabled";

/// Settings with names that other libraries use, or that a user may guess. Names that are similar to the setting's own (`cache`,
/// `expires`) are found without this list.
const OTHER_WORDS: &str = "\
expires_after: ttl window expiration expiry max_age retention duration
lease: timeout lock lock_timeout lock_for
key_prefix: name prefix namespace operation scope
key: id idempotency_key event_key_jmespath jmespath
validate: payload_validation_jmespath fingerprint
key_required: required raise_on_no_idempotency_key
hash: algorithm digest
local_cache: use_local_cache local_cache_max_items
lookup: read_first read
on_in_progress: on_conflict on_duplicate
on_error: on_failure
on_store_error: on_store_failure fail_open
circuit_breaker: breaker store_breaker
store: persistence_store backend
on_replay: response_hook
payload: body event";

/// Returns the variable of a setting that only the environment has.
pub(crate) fn variable(name: &str) -> Option<String> {
    ENVIRONMENT.split(' ').find(|known| *known == name)?;
    let setting = match name {
        "table_name" => "table",
        "enabled" => "disabled",
        own => own,
    };
    Some(format!("IDEMPOTENCY_{}", setting.to_uppercase()))
}

/// Iterates over the names of other libraries, each with the setting here.
fn other_words() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = OTHER_WORDS.lines().filter_map(|row| row.split_once(": "));
    rows.flat_map(|(setting, words)| words.split(' ').map(move |word| (word, setting)))
}

/// Other words for the shapes of functions.
const OTHER_SHAPES: &str = "\
http: api apigw apigateway api_gateway rest alb function_url url lambda_http axum
sqs: queue fifo sqs_fifo
kinesis: kinesis_stream kinesis_streams
dynamodb_stream: dynamodb dynamodb_streams dynamo dynamo_db ddb ddb_stream";

/// Sources of events that need no shape: each event is one call.
const SINGLE_EVENTS: &str = "sns s3 eventbridge event_bridge schedule scheduler cron cognito ses iot step_functions cloudwatch";

/// Sources of events that no shape handles.
const NO_SHAPES: &str = "kafka msk mq rabbitmq activemq documentdb firehose pipes";

/// Returns the message for a word that may stand for the shape of the function, and the shape; `None` if it does not.
pub(super) fn shape(word: &str) -> Option<(String, Option<&'static str>)> {
    let lower = word.to_ascii_lowercase();
    let is_one_of = |words: &str| words.split(' ').any(|known| known == lower);
    let mut rows = OTHER_SHAPES.lines().filter_map(|row| row.split_once(": "));
    let is_meant = |shape: &str| similarity(shape, &lower).is_some_and(|how| how > 0.75);
    if let Some((shape, _)) = rows.find(|(shape, words)| is_meant(shape) || is_one_of(words)) {
        return Some((format!("`{word}` is written `{shape}` here"), Some(shape)));
    }
    let instead = if is_one_of(SINGLE_EVENTS) {
        "each event is one call: leave the word out, take a `LambdaEvent<..>`, and write a `key`"
    } else if is_one_of(NO_SHAPES) {
        "protect a function of one record with `payload = <expression over the parameters>`, and call it for each record"
    } else {
        return None;
    };
    Some((format!("there is no shape `{word}`: {instead}"), None))
}

/// Returns the message for a name that is not a setting.
pub(super) fn unknown_setting(name: &str) -> String {
    if let Some(variable) = variable(name) {
        return format!(
            "`{name}` is a setting of the environment: set `{variable}` for the function"
        );
    }
    if let Some((_, known)) = other_words().find(|(word, _)| *word == name) {
        let example = SettingRow::named(known).map_or("..", |row| row.example);
        let more = match name {
            "timeout" => " (`on_timeout` chooses what happens when the lease of a claim expires)",
            _ => "",
        };
        return format!("`{name}` is called `{known}` here: write `{known} = {example}`{more}");
    }
    let nearest = SettingRow::all()
        .filter_map(|row| Some((similarity(row.name, name)?, row)))
        // Few functions have the other settings, so a similar name must be more similar.
        .filter(|(similarity, row)| row.scope == Scope::Every || *similarity > 0.6)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    match nearest {
        Some((_, row)) => format!("unknown setting `{name}`: did you mean `{}`?", row.name),
        None => {
            let known: Vec<_> = SettingRow::of(Scope::Every)
                .map(|row| format!("`{}`", row.name))
                .collect();
            format!(
                "unknown setting `{name}`: write one of {}, or one of the shapes `http`, `sqs`, `kinesis` and `dynamodb_stream`",
                known.join(", ")
            )
        }
    }
}

/// Returns how similar a name is to a setting's, from 0 to 1, or `None` if it is less than a half.
///
/// A part of the setting's name (`expires`) counts almost as much as a spelling mistake (`kye`). It counts less, because some
/// names are parts of others (`key`, `key_prefix`).
fn similarity(known: &str, name: &str) -> Option<f64> {
    const LONGEST: usize = 64;
    const PART: f64 = 0.7;

    // The comparison takes memory for each pair of letters.
    if name.len() > LONGEST {
        return None;
    }
    let spelling = strsim::normalized_damerau_levenshtein(known, name);
    let part = known.contains(name) || name.contains(known);
    let similarity = if part && spelling < PART {
        PART + spelling / 100.0
    } else {
        spelling
    };
    (similarity >= 0.5).then_some(similarity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_another_library_leads_to_the_setting_here() {
        for (word, known) in other_words() {
            let message = unknown_setting(word);
            assert!(message.contains(&format!("write `{known} = ")), "{message}");
            assert!(SettingRow::named(known).is_some(), "{known}");
            assert!(SettingRow::named(word).is_none(), "{word}");
        }
        assert_eq!(other_words().count(), 42);
    }

    /// `tests/ui/fail/arguments.cases` has other names.
    #[test]
    fn a_very_long_name_is_not_compared() {
        let unknown = unknown_setting(&"key".repeat(100_000));
        assert!(
            unknown.contains("write one of `key`, `validate`"),
            "{unknown}"
        );
    }
}
