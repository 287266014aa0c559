//! The message for a name that is no setting: it says which setting the user probably means.

use super::known::{BATCH, ENVIRONMENT, HTTP, KNOWN, OTHER_WORDS, example};

/// Returns the message for a name that is not a setting.
pub(super) fn unknown_setting(name: &str) -> String {
    if let Some((_, variable)) = ENVIRONMENT.iter().find(|(known, _)| *known == name) {
        return format!(
            "`{name}` is a setting of the environment: set `{variable}` for the function"
        );
    }
    if let Some((_, known)) = OTHER_WORDS.iter().find(|(word, _)| *word == name) {
        let example = example(known).unwrap_or("..");
        let more = match name {
            "timeout" => " (`on_timeout` chooses what happens when the lease of a claim expires)",
            _ => "",
        };
        return format!("`{name}` is called `{known}` here: write `{known} = {example}`{more}");
    }
    let of_all = KNOWN
        .iter()
        .filter_map(|(known, _)| Some((similarity(known, name)?, *known)));
    // Few functions have these settings, so a similar name must be more similar.
    let of_shapes = HTTP
        .iter()
        .chain(&BATCH)
        .filter_map(|(known, _)| Some((similarity(known, name)?, *known)))
        .filter(|(similarity, _)| *similarity > 0.6);
    let nearest = of_all
        .chain(of_shapes)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    match nearest {
        Some((_, known)) => format!("unknown setting `{name}`: did you mean `{known}`?"),
        None => {
            let known: Vec<_> = KNOWN
                .iter()
                .map(|(known, _)| format!("`{known}`"))
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
            assert!(KNOWN.iter().any(|(name, _)| *name == known), "{known}");
            assert!(KNOWN.iter().all(|(name, _)| *name != word), "{word}");
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
