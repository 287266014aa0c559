//! The identification of an event never takes more memory than its limit. The allocator of the program counts, so this is
//! its only test.
#![allow(clippy::unwrap_used)]

use idempotency_core::config::{HostVariables, Settings, Variables};
use idempotency_core::operation::{CompiledOperation, Identity};
use idempotency_lambda::Error;
use idempotency_tests::hostile::{self, EVENT, Hostile};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Memory that the limit does not count, in bytes: the text of an error, and a piece of text for the digest.
const SLACK: usize = 64 * 1024;

fn operation(hostile: &Hostile, memory: &str) -> CompiledOperation {
    let host = HostVariables::LAMBDA;
    let variables = Variables::from_iter([(host.memory.to_owned(), memory.to_owned())]).on(host);
    let settings = Settings {
        key: hostile.key.map(|key| key.to_owned().into()),
        key_prefix: Some("shop".into()),
        ..Settings::default()
    };
    CompiledOperation::new("shop", &settings, &variables).unwrap()
}

/// Returns the identity of an event and the peak number of allocated bytes.
fn measured(operation: &CompiledOperation, event: &str) -> (Result<Identity, Error>, usize) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let identity = operation.identify(event, None);
    (identity, ALLOCATOR.peak_usage() - before)
}

#[test]
fn no_event_takes_more_memory_than_the_limit_and_refusals_say_what_to_do() {
    let limit = 32 * 1024 * 1024;
    let mut refused = 0;
    for hostile in hostile::events() {
        let (identity, peak) = measured(&operation(&hostile, "128"), &hostile.event);
        println!(
            "{}: {} bytes took {:.1} MiB, {}",
            hostile.name,
            hostile.event.len(),
            peak as f64 / 1_048_576.0,
            if identity.is_ok() { "a key" } else { "refused" }
        );
        assert!(peak <= limit + SLACK, "{}: {peak} bytes", hostile.name);
        if let Err(error) = identity {
            refused += 1;
            let text = error.to_string();
            let variable = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE";
            for part in ["32 MiB", variable, "the handler did not run"] {
                assert!(text.contains(part), "{}: {text}", hostile.name);
            }
        }
    }
    assert!(refused > 20, "most of them exceed the limit");

    // Usual events in small functions.
    let record = r#"{"id":"5f0c5c3e","sku":"A-1001","amount":10,"price":12.5,"note":""}"#;
    let text = |name: &str, length| format!("{{\"id\":1,\"{name}\":\"{}\"}}", "A".repeat(length));
    let long = hostile::in_body(&"A".repeat(EVENT - 64));
    let base64 = aws_smithy_types::base64::encode(text("file", 4 << 20));
    let packed = hostile::packed(&text("x", 10 << 20));
    let records = |length| hostile::repeated("[", record, "]", length);
    let wide = hostile::repeated("[", "0", "]", EVENT);
    let unbased = "powertools_json(powertools_base64(body)).id";
    let unpacked = "powertools_json(powertools_base64_gzip(body)).id";
    let many = records(20_000 * (record.len() + 1));
    for (name, event, key, memory) in [
        ("one long string", long, "id", "128"),
        ("in base64", hostile::in_body(&base64), unbased, "128"),
        ("a packed body", hostile::in_body(&packed), unpacked, "128"),
        ("20 000 records", many, "[0].id", "128"),
        ("as many as fit, in 1 GB", records(EVENT), "[*].id", "1024"),
        ("a wide array in 1 GB", wide, "[0]", "1024"),
    ] {
        let key = Some(key);
        let hostile = Hostile { name, event, key };
        let (identity, peak) = measured(&operation(&hostile, memory), &hostile.event);
        println!(
            "{name}: {} bytes took {:.1} MiB",
            hostile.event.len(),
            peak as f64 / 1_048_576.0
        );
        let has_key = identity.is_ok_and(|identity| identity.key().is_some());
        assert!(has_key, "{name}");
    }
}
