//! First phase: the attribute's arguments, `name = value` each. All of them pass through [`Arguments::add`], so that no
//! setting can be written twice or be misspelt unnoticed.

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Ident, LitStr, Token, token};

/// Every setting, in the order of the documentation, with an example of its value.
pub(crate) const KNOWN: [(&str, &str); 19] = [
    ("key", "\"order_id\""),
    ("validate", "\"amount\""),
    ("key_required", "true"),
    ("key_prefix", "\"charge\""),
    ("shared_key_prefix", "true"),
    ("hash", "\"sha256\""),
    ("expires_after", "\"1h\""),
    ("lease", "\"15m\""),
    ("store_timeout", "\"2s\""),
    ("local_cache", "256"),
    ("local_cache_bytes", "8_388_608"),
    ("on_in_progress", "\"wait\""),
    ("on_timeout", "\"hold\""),
    ("on_error", "\"record\""),
    ("store_when", "\"status == 'ok'\""),
    ("on_replay", "mark_as_replayed"),
    ("store", "store.clone()"),
    ("payload", "order"),
    ("context", "event.context"),
];

/// The settings whose values are code.
const CODE: [&str; 4] = ["on_replay", "store", "payload", "context"];

/// The settings whose values are constants.
pub(crate) fn constants() -> impl Iterator<Item = &'static str> {
    let names = KNOWN.iter().map(|(name, _)| *name);
    names.filter(|name| !CODE.contains(name))
}

/// Settings of the environment, whose names a user may try here.
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

/// Words that other libraries use, or that come to mind first, and the settings that are meant. Words that are like a setting's
/// name (`cache`, `expires`) are not needed here.
pub(crate) const OTHER_WORDS: [(&str, &str); 36] = [
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
    ("on_conflict", "on_in_progress"),
    ("on_duplicate", "on_in_progress"),
    ("on_failure", "on_error"),
    ("persistence_store", "store"),
    ("backend", "store"),
    ("response_hook", "on_replay"),
    ("body", "payload"),
    ("event", "payload"),
];

/// One setting as it was written.
pub(crate) struct Setting {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}

/// All settings that could be read, and what is wrong with the others.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) all: Vec<Setting>,
    pub(crate) errors: Vec<Error>,
    /// What `crate = ..` says.
    pub(crate) runtime: Option<syn::Path>,
    seen: Vec<String>,
}

impl Arguments {
    /// Reads an attribute's arguments to their end, whatever is wrong on the way.
    pub(crate) fn parse(tokens: TokenStream) -> Self {
        let mut arguments = Self::default();
        let read = |input: ParseStream<'_>| {
            while !input.is_empty() {
                arguments.add(input);
                if input.peek(Token![,]) {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(error) = read.parse2(tokens) {
            arguments.errors.push(error);
        }
        arguments
    }

    /// Whether a setting was written, rightly or wrongly.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.seen.iter().any(|seen| seen == name)
    }

    fn add(&mut self, input: ParseStream<'_>) {
        match self.setting(input) {
            Ok(setting) => self.all.extend(setting),
            Err(error) => {
                self.errors.push(error);
                skip_to_next(input);
            }
        }
    }

    fn setting(&mut self, input: ParseStream<'_>) -> syn::Result<Option<Setting>> {
        let Ok(name) = input.call(Ident::parse_any) else {
            return Err(match input.parse::<LitStr>() {
                Ok(text) => Error::new(
                    text.span(),
                    "a setting has a name: write `key = \"..\"` for the key's expression",
                ),
                Err(_) => input.error("a setting is written `name = value`"),
            });
        };
        let text = name.to_string();
        if text == "crate" {
            return self.runtime(input).map(|()| None);
        }
        let Some((_, example)) = KNOWN.iter().find(|(known, _)| *known == text) else {
            return Err(Error::new(name.span(), unknown(&text)));
        };
        if self.names(&text) {
            return Err(Error::new(
                name.span(),
                format!("`{text}` is written twice: leave one out"),
            ));
        }
        self.seen.push(text.clone());
        if !input.peek(Token![=]) || input.peek(Token![==]) {
            return Err(Error::new(
                name.span(),
                format!("`{text}` needs a value: write `{text} = {example}`"),
            ));
        }
        input.parse::<Token![=]>()?;
        let value = value(input, &text, example)?;
        if starts_setting(input) {
            let said = format!("write a comma between the value of `{text}` and this setting");
            self.errors.push(input.error(said));
        }
        Ok(Some(Setting { name, value }))
    }

    /// `crate = path`, for programs that know the runtime through a crate of their own.
    fn runtime(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        input.parse::<Token![=]>()?;
        self.runtime = Some(input.call(syn::Path::parse_mod_style)?);
        Ok(())
    }
}

/// A value up to the comma, or up to the next setting where the comma is missing. Anything that is no Rust expression is most
/// likely a text without its quotes.
fn value(input: ParseStream<'_>, name: &str, example: &str) -> syn::Result<Expr> {
    if input.is_empty() || input.peek(Token![,]) {
        return Err(Error::new(
            input.span(),
            format!("`{name}` needs a value: write `{name} = {example}`"),
        ));
    }
    let start = input.span();
    let ends =
        |input: ParseStream<'_>| input.is_empty() || input.peek(Token![,]) || starts_setting(input);
    let ahead = input.fork();
    let value = ahead.parse::<Expr>();
    match value {
        Ok(value) if ends(&ahead) => {
            input.advance_to(&ahead);
            Ok(value)
        }
        _ if example.starts_with('"') => Err(Error::new(
            start,
            format!(
                "the value of `{name}` is a text: write it in quotes, like `{name} = {example}`"
            ),
        )),
        Ok(_) => Err(ahead.error("expected `,` between two settings")),
        Err(error) => Err(error),
    }
}

/// Steps over what is left of a setting, so that the next one is still read. Commas within an expression do not end it:
/// only one before another setting does.
fn skip_to_next(input: ParseStream<'_>) {
    while !input.is_empty() {
        let ahead = input.fork();
        let comma = ahead.parse::<Token![,]>().is_ok();
        if comma && (ahead.is_empty() || starts_setting(&ahead)) {
            return;
        }
        // A token tree is there, as the input is not empty.
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

fn starts_setting(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let Ok(name) = ahead.call(Ident::parse_any) else {
        return false;
    };
    let equals = ahead.peek(Token![=]) && !ahead.peek(Token![==]);
    let known = KNOWN.iter().any(|(known, _)| name == known);
    equals || known && (ahead.is_empty() || ahead.peek(Token![,]) || ahead.peek(token::Paren))
}

/// What to say to a name that is no setting.
fn unknown(name: &str) -> String {
    if let Some((_, variable)) = ENVIRONMENT.iter().find(|(known, _)| *known == name) {
        return format!(
            "`{name}` is a setting of the environment: set `{variable}` for the function"
        );
    }
    if let Some((_, known)) = OTHER_WORDS.iter().find(|(word, _)| *word == name) {
        let example = KNOWN.iter().find(|(name, _)| name == known);
        let example = example.map_or("..", |(_, example)| example);
        let more = match name {
            "timeout" => " (`on_timeout` says what follows a claim whose lease has ended)",
            _ => "",
        };
        return format!("`{name}` is called `{known}` here: write `{known} = {example}`{more}");
    }
    let nearest = KNOWN
        .iter()
        .filter_map(|(known, _)| Some((likeness(known, name)?, *known)))
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

/// Between 0 and 1, if it is enough to be meant. A part of a name (`expires`) is nearly as much as one slip (`kye`): less,
/// since some names are parts of others.
fn likeness(known: &str, name: &str) -> Option<f64> {
    const LONGEST: usize = 64;
    const PART: f64 = 0.7;

    // The comparison takes memory for each pair of letters.
    if name.len() > LONGEST {
        return None;
    }
    let slips = strsim::normalized_damerau_levenshtein(known, name);
    let part = known.contains(name) || name.contains(known);
    let likeness = if part && slips < PART {
        PART + slips / 100.0
    } else {
        slips
    };
    (likeness >= 0.5).then_some(likeness)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &str) -> (Vec<String>, Vec<String>) {
        let arguments = Arguments::parse(arguments.parse().unwrap());
        (
            arguments
                .all
                .iter()
                .map(|setting| setting.name.to_string())
                .collect(),
            arguments.errors.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn an_attribute_without_arguments_says_nothing() {
        assert_eq!(read(""), (vec![], vec![]));
    }

    #[test]
    fn a_comma_may_end_the_list() {
        assert_eq!(
            read("key = \"a\", local_cache = 2,").0,
            ["key", "local_cache"]
        );
    }

    #[test]
    fn one_wrong_setting_does_not_hide_the_next() {
        let (names, errors) = read(
            "kye = \"a\", hash = md-5], lease = \"1m\""
                .replace(']', "")
                .as_str(),
        );
        assert_eq!(names, ["hash", "lease"]);
        assert_eq!(errors, ["unknown setting `kye`: did you mean `key`?"]);
    }

    #[test]
    fn commas_within_a_closure_or_generics_are_its_own() {
        let (names, errors) = read("on_replay = |r, _| r, payload = f::<A, B>(x), lease = \"1m\"");
        assert_eq!((names.len(), errors.len()), (3, 0), "{errors:?}");
    }

    #[test]
    fn a_name_twice_is_said_once() {
        let (names, errors) = read("key = \"a\", key = \"b\", key_required = true");
        assert_eq!(names, ["key", "key_required"]);
        assert_eq!(errors, ["`key` is written twice: leave one out"]);
    }

    #[test]
    fn a_missing_comma_is_asked_for_and_hides_nothing() {
        let (names, errors) = read("key = \"a\" lease = \"1m\" local_cache = 3");
        assert_eq!(names, ["key", "lease", "local_cache"]);
        assert_eq!(
            errors,
            [
                "write a comma between the value of `key` and this setting",
                "write a comma between the value of `lease` and this setting"
            ]
        );
        // A value may have the name of a setting.
        let (names, errors) = read("payload = key, store = store");
        assert_eq!((names.len(), errors.len()), (2, 0), "{errors:?}");
        let (names, errors) = read("key = KEY key_prefix = \"p\"");
        assert_eq!((names.len(), errors.len()), (2, 1), "{errors:?}");
    }

    #[test]
    fn a_common_word_is_answered_with_the_setting_that_is_meant() {
        for (word, known) in OTHER_WORDS {
            assert!(
                unknown(word).contains(&format!("write `{known} = ")),
                "{}",
                unknown(word)
            );
            assert!(KNOWN.iter().any(|(name, _)| *name == known), "{known}");
            assert!(KNOWN.iter().all(|(name, _)| *name != word), "{word}");
            assert!(ENVIRONMENT.iter().all(|(name, _)| *name != word), "{word}");
        }
        assert_eq!(
            unknown("ttl"),
            "`ttl` is called `expires_after` here: write `expires_after = \"1h\"`"
        );
        assert!(unknown("timeout").contains("`on_timeout` says"));
    }

    #[test]
    fn a_text_without_quotes_is_asked_for_them() {
        let (_, errors) = read("key = body.[user_id, order_id], hash = \"md5\"");
        assert_eq!(
            errors,
            ["the value of `key` is a text: write it in quotes, like `key = \"order_id\"`"]
        );
    }

    #[test]
    fn a_setting_without_a_value_is_shown_one() {
        for arguments in [
            "key",
            "key, lease = \"1m\"",
            "key(\"a\")",
            "key =",
            "key = , lease = \"1m\"",
        ] {
            let (_, errors) = read(arguments);
            assert_eq!(
                errors,
                ["`key` needs a value: write `key = \"order_id\"`"],
                "{arguments}"
            );
        }
    }

    #[test]
    fn a_text_alone_is_asked_for_its_name() {
        assert!(read("\"order_id\"").1[0].contains("write `key ="));
    }

    #[test]
    fn the_nearest_name_is_offered() {
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
                unknown(written).contains(&format!("`{known}`?")),
                "{}",
                unknown(written)
            );
        }
    }

    #[test]
    fn a_setting_of_the_environment_is_named() {
        assert!(read("table = \"t\"").1[0].contains("set `IDEMPOTENCY_TABLE`"));
    }

    #[test]
    fn a_name_without_end_is_compared_with_none() {
        assert!(read(&format!("{} = 1", "key".repeat(100_000))).1[0].contains("`key`, `validate`"));
    }

    #[test]
    fn a_name_like_no_other_is_shown_all() {
        assert!(read("zzz = 1").1[0].contains("`key`, `validate`"));
    }
}
