//! The names of the settings, and other names that a user may write for them.

/// The settings, in the order of the documentation, each with an example of its value.
pub(crate) const KNOWN: [(&str, &str); 24] = [
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
    ("lookup", "\"read-first\""),
    ("on_in_progress", "\"wait\""),
    ("on_timeout", "\"hold\""),
    ("on_error", "\"record\""),
    ("on_store_error", "\"run-unprotected\""),
    ("circuit_breaker", "true"),
    ("steps", "\"keep\""),
    ("store_when", "\"status == 'ok'\""),
    ("store_event", "\"{order_id: order_id}\""),
    ("on_replay", "mark_as_replayed"),
    ("store", "store.clone()"),
    ("payload", "order"),
    ("context", "event.context"),
];

/// The settings of the shape `http`, in the order of the documentation, each with an example of its value.
pub(crate) const HTTP: [(&str, &str); 8] = [
    (
        "caller",
        "\"requestContext.authorizer.jwt.claims.[iss, sub]\"",
    ),
    ("shared_by_all_callers", "true"),
    ("key_header", "\"x-request-id\""),
    ("methods", "\"POST, PUT\""),
    ("fingerprint_also", "\"header(@, 'host')\""),
    ("stored_headers", "\"x-receipt, x-total\""),
    ("on_unstorable", "\"release\""),
    ("add_headers", "cors"),
];

/// The settings of the shapes of batches, in the order of the documentation, each with an example of its value.
pub(crate) const BATCH: [(&str, &str); 5] = [
    ("key_from", "\"record\""),
    ("concurrency", "4"),
    ("order", "\"partition_key\""),
    ("reserve", "\"2s\""),
    ("log_errors", "true"),
];

/// The settings whose values are code.
const CODE: [&str; 4] = ["on_replay", "store", "payload", "context"];

/// Returns the example value of a setting, or `None` if there is no setting of this name.
pub(crate) fn example(name: &str) -> Option<&'static str> {
    let mut settings = KNOWN.iter().chain(&HTTP).chain(&BATCH);
    let setting = settings.find(|(known, _)| *known == name);
    setting.map(|(_, example)| *example)
}

/// Returns the names of the settings whose values are constants.
pub(crate) fn constants() -> impl Iterator<Item = &'static str> {
    let names = KNOWN.iter().map(|(name, _)| *name);
    names.filter(|name| !CODE.contains(name))
}

/// Returns the names of the settings of the shape `http`. Their values are constants.
pub(crate) fn of_http() -> impl Iterator<Item = &'static str> {
    HTTP.iter().map(|(name, _)| *name)
}

/// Returns the names of the settings of the shapes of batches. Their values are constants.
pub(crate) fn of_batch() -> impl Iterator<Item = &'static str> {
    BATCH.iter().map(|(name, _)| *name)
}

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
pub(super) const OTHER_WORDS: [(&str, &str); 42] = [
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
