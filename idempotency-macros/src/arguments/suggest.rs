//! The message for a name that is no setting: it says which setting the user probably means.

use idempotency_expression::{Scope, SettingRow};

/// Settings that only the environment has, with the variable of each. A user may try to write them here.
pub(crate) const ENVIRONMENT: [(&str, &str); 12] = [
    ("table", "IDEMPOTENCY_TABLE"),
    ("table_name", "IDEMPOTENCY_TABLE"),
    ("key_attr", "IDEMPOTENCY_KEY_ATTR"),
    ("expiry_attr", "IDEMPOTENCY_EXPIRY_ATTR"),
    (
        "in_progress_expiry_attr",
        "IDEMPOTENCY_IN_PROGRESS_EXPIRY_ATTR",
    ),
    ("status_attr", "IDEMPOTENCY_STATUS_ATTR"),
    ("data_attr", "IDEMPOTENCY_DATA_ATTR"),
    ("validation_attr", "IDEMPOTENCY_VALIDATION_ATTR"),
    ("sort_key_attr", "IDEMPOTENCY_SORT_KEY_ATTR"),
    ("static_pk_value", "IDEMPOTENCY_STATIC_PK_VALUE"),
    ("disabled", "IDEMPOTENCY_DISABLED"),
    ("enabled", "IDEMPOTENCY_DISABLED"),
];

/// Names that other libraries use, or that a user may guess, with the setting of each. Names that are similar to the
/// setting's own (`cache`, `expires`) are found without this list.
const OTHER_WORDS: [(&str, &str); 42] = [
    ("ttl", "expires_after"),
    ("window", "expires_after"),
    ("expiration", "expires_after"),
    ("expiry", "expires_after"),
    ("max_age", "expires_after"),
    ("retention", "expires_after"),
    ("duration", "expires_after"),
    ("timeout", "lease"),
    ("lock", "lease"),
    ("lock_timeout", "lease"),
    ("lock_for", "lease"),
    ("name", "key_prefix"),
    ("prefix", "key_prefix"),
    ("namespace", "key_prefix"),
    ("operation", "key_prefix"),
    ("scope", "key_prefix"),
    ("id", "key"),
    ("idempotency_key", "key"),
    ("event_key_jmespath", "key"),
    ("jmespath", "key"),
    ("payload_validation_jmespath", "validate"),
    ("fingerprint", "validate"),
    ("required", "key_required"),
    ("raise_on_no_idempotency_key", "key_required"),
    ("algorithm", "hash"),
    ("digest", "hash"),
    ("use_local_cache", "local_cache"),
    ("local_cache_max_items", "local_cache"),
    ("read_first", "lookup"),
    ("read", "lookup"),
    ("on_conflict", "on_in_progress"),
    ("on_duplicate", "on_in_progress"),
    ("on_failure", "on_error"),
    ("on_store_failure", "on_store_error"),
    ("fail_open", "on_store_error"),
    ("breaker", "circuit_breaker"),
    ("store_breaker", "circuit_breaker"),
    ("persistence_store", "store"),
    ("backend", "store"),
    ("response_hook", "on_replay"),
    ("body", "payload"),
    ("event", "payload"),
];

/// Returns the message for a name that is not a setting.
pub(super) fn unknown_setting(name: &str) -> String {
    if let Some((_, variable)) = ENVIRONMENT.iter().find(|(known, _)| *known == name) {
        return format!(
            "`{name}` is a setting of the environment: set `{variable}` for the function"
        );
    }
    if let Some((_, known)) = OTHER_WORDS.iter().find(|(word, _)| *word == name) {
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
                "unknown setting `{name}`: write one of {}",
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
        for (word, known) in OTHER_WORDS {
            assert!(
                unknown_setting(word).contains(&format!("write `{known} = ")),
                "{}",
                unknown_setting(word)
            );
            assert!(SettingRow::named(known).is_some(), "{known}");
            assert!(SettingRow::named(word).is_none(), "{word}");
            assert!(ENVIRONMENT.iter().all(|(name, _)| *name != word), "{word}");
        }
        assert_eq!(
            unknown_setting("ttl"),
            "`ttl` is called `expires_after` here: write `expires_after = \"1h\"`"
        );
        assert!(unknown_setting("timeout").contains("`on_timeout` chooses"));
    }

    #[test]
    fn a_misspelt_name_leads_to_the_most_similar_setting() {
        for (written, known) in [
            ("expires", "expires_after"),
            ("expire_after", "expires_after"),
            ("on_inprogress", "on_in_progress"),
            ("validation", "validate"),
            ("keyprefix", "key_prefix"),
            ("cache", "local_cache"),
            ("store_whe", "store_when"),
            ("key_requird", "key_required"),
            ("key_", "key"),
        ] {
            assert!(
                unknown_setting(written).contains(&format!("`{known}`?")),
                "{}",
                unknown_setting(written)
            );
        }
    }

    #[test]
    fn a_very_long_name_is_not_compared() {
        assert!(unknown_setting(&"key".repeat(100_000)).contains("`key`, `validate`"));
    }

    #[test]
    fn a_name_that_is_similar_to_none_leads_to_the_list_of_all() {
        assert!(unknown_setting("zzz").contains("`key`, `validate`"));
    }
}
