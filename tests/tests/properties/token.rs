//! Tokens: another id or name has another token, and the same one has the same in every run.

use std::sync::Arc;

use idempotency_core::config::{Settings, Variables};
use idempotency_core::engine::{Backend, Codec, Errors};
use idempotency_core::error::Error;
use idempotency_core::example::ready;
use idempotency_core::operation::CompiledOperation;
use idempotency_core::store::MemoryStore;
use idempotency_testkit::{ManualClock, SeededRandom};
use proptest::prelude::*;

use crate::cases;

/// What a token depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    prefix: String,
    tenant: Option<String>,
    key: String,
    name: String,
}

/// Short texts of few letters, so that two of them often differ only in where one part ends.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a1.]{0,3}", 1 => "\\PC{0,8}"]
}

fn source() -> impl Strategy<Value = Source> {
    let parts = ("[a1.]{1,3}", prop::option::of(text()), text(), text());
    parts.prop_map(|(prefix, tenant, key, name)| Source {
        prefix,
        tenant,
        key,
        name,
    })
}

/// Returns the token that a handler gets in a run on an empty store, and the id of its record.
fn token(source: &Source, seed: u64) -> (String, String) {
    let settings = Settings {
        key_prefix: Some(source.prefix.clone().into()),
        ..Settings::default()
    };
    let operation =
        CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap();
    let backend = Backend::new(
        Arc::new(MemoryStore::new()),
        Arc::new(ManualClock::at(1_700_000_000_000)),
        Arc::new(SeededRandom::new(seed)),
    );
    let payload = [&source.key, "key"];
    let identity = operation
        .identify_value(&payload, source.tenant.as_deref())
        .unwrap();
    let run = operation.run(
        &backend,
        &identity,
        None,
        Codec::json(),
        Errors::new(|error| error),
        async |call| Ok::<_, Error>(call.token(&source.name).to_string()),
    );
    let token = ready(run).unwrap().into_response();
    (token, identity.key().unwrap().as_str().to_owned())
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn two_tokens_are_equal_only_if_id_and_name_are(one in source(), other in source(), seeds in any::<(u64, u64)>()) {
        let (first, first_id) = token(&one, seeds.0);
        let (second, second_id) = token(&other, seeds.1);
        let same = first_id == second_id && one.name == other.name;
        prop_assert_eq!(first == second, same, "{:?} and {:?}", one, other);
    }

    #[test]
    fn each_part_makes_another_token(source in source(), more in "[a1.]{1,3}", seeds in any::<(u64, u64)>()) {
        let (first, _) = token(&source, seeds.0);
        prop_assert_eq!(&token(&source, seeds.1).0, &first);
        let tenant = format!("{}{more}", source.tenant.as_deref().unwrap_or_default());
        for other in [
            Source { prefix: format!("{}{more}", source.prefix), ..source.clone() },
            Source { tenant: Some(tenant), ..source.clone() },
            Source { key: format!("{}{more}", source.key), ..source.clone() },
            Source { name: format!("{}{more}", source.name), ..source.clone() },
        ] {
            prop_assert_ne!(&token(&other, seeds.1).0, &first, "{:?}", other);
        }
    }

    #[test]
    fn a_part_that_moves_from_one_text_into_the_next_makes_another_token(
        source in source(),
        moved in "[a1.]{1,3}",
        seed in any::<u64>(),
    ) {
        let (left, right) = (
            Source { key: format!("{}{moved}", source.key), ..source.clone() },
            Source { name: format!("{moved}{}", source.name), ..source },
        );
        prop_assert_ne!(token(&left, seed).0, token(&right, seed).0);
    }
}
