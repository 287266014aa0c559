//! The conformance suite on every store that we have, and on broken stores, which must fail it.

mod broken;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::future::BoxFuture;
use idempotency_core::record::RecordId;
use idempotency_core::store::{LedgerEntry, MemoryStore, MemoryWrites, Staged, Store};
use idempotency_lambda::BoxError;
use idempotency_testkit::ManualClock;
use idempotency_testkit::conformance::{
    ForeignRecord, Report, StoreFactory, assert_conformance, check, sharing,
};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use idempotency_testkit::store::StoreExt;
use idempotency_testkit::store::{FaultyStore, StoreFault, StoreOperation};
use idempotency_tests::{START, TableFactory};

use broken::{Broken, BrokenStore};

/// The memory store, with replies that can be lost.
struct InMemory(Arc<FaultyStore<MemoryStore>>);

impl StoreFactory for InMemory {
    fn store(&self) -> BoxFuture<'_, Result<Arc<dyn Store>, BoxError>> {
        let store: Arc<dyn Store> = self.0.clone();
        Box::pin(async move { Ok(store) })
    }

    fn plant<'a>(
        &'a self,
        id: &'a RecordId,
        foreign: &'a ForeignRecord,
    ) -> Option<BoxFuture<'a, Result<(), BoxError>>> {
        let records = self.0.inner();
        records.insert(id.clone(), foreign.reads_as.clone());
        Some(Box::pin(async { Ok(()) }))
    }

    fn lose_next_reply(&self, operation: StoreOperation) -> bool {
        self.0.inject(operation, 1, StoreFault::LoseReply);
        true
    }

    fn take_one(&self, name: &str, limit: u32) -> Option<Staged> {
        let entry = LedgerEntry::add(name, -1).at_least(-i64::from(limit));
        Some(Staged::new(MemoryWrites::from([entry])))
    }

    fn taken<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<u32, BoxError>> {
        let taken = -self.0.inner().balance(name);
        Box::pin(async move { Ok(u32::try_from(taken)?) })
    }
}

fn clock() -> ManualClock {
    ManualClock::at(START)
}

/// Prints past the capture of the test harness, because the report is also useful if every case passes.
fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Returns a client with very short pauses between its sends.
fn quick_client(database: &EmbeddedDynamoDb) -> Client {
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    let config = aws_sdk_dynamodb::config::Builder::from(&database.sdk_config());
    Client::from_conf(config.retry_config(retries).build())
}

fn nothing_was_skipped(report: &Report) {
    assert_eq!(report.skipped().count(), 0, "{report}");
    say(report);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_in_memory_conforms() {
    let store = Arc::new(FaultyStore::new(MemoryStore::new()));
    let report = assert_conformance(InMemory(store.clone()), &clock()).await;
    assert!(store.inner().is_empty(), "the suite deletes what it wrote");
    let skipped: Vec<_> = report.skipped().map(|(_, reason)| reason).collect();
    assert_eq!(
        skipped,
        ["the factory knows no limit on a record's size"; 4]
    );
    say(report);
}

#[tokio::test]
async fn a_store_whose_eventual_reads_are_stale_conforms() {
    for writes in [1, 3] {
        let store = Arc::new(FaultyStore::new(MemoryStore::new()));
        store.lag(writes);
        assert_conformance(InMemory(store), &clock()).await;
    }
}

#[tokio::test]
async fn a_store_whose_failed_conditions_return_no_record_conforms() {
    let store = BrokenStore::new(Broken::ReturnsNoRecord);
    let _ = assert_conformance(broken::Factory(Arc::new(store)), &clock()).await;
}

#[tokio::test]
async fn a_store_alone_is_enough_and_so_is_one_thread() {
    let store = Arc::new(MemoryStore::new());
    assert_conformance(sharing(store), &clock()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dynamodb_store_conforms_on_the_embedded_database() -> Result<(), BoxError> {
    let database = Arc::new(EmbeddedDynamoDb::start().await?);
    database.create_table(TableSpec::new("simple")).await?;
    let factory = TableFactory::new(quick_client(&database), "simple").losing_replies(&database);
    nothing_was_skipped(&assert_conformance(factory, &clock()).await);
    assert!(database.items("simple").await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dynamodb_store_conforms_with_a_composite_key() -> Result<(), BoxError> {
    let database = Arc::new(EmbeddedDynamoDb::start().await?);
    let table = TableSpec::new("composite").with_sort_key("sk");
    database.create_table(table).await?;
    let factory = TableFactory::new(quick_client(&database), "composite");
    let factory = factory
        .composite("sk", "idempotency#one")
        .losing_replies(&database);
    nothing_was_skipped(&assert_conformance(factory, &clock()).await);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dynamodb_store_conforms_with_large_responses() -> Result<(), BoxError> {
    let database = Arc::new(EmbeddedDynamoDb::start().await?);
    database.create_table(TableSpec::new("large")).await?;
    let factory = TableFactory::new(quick_client(&database), "large").losing_replies(&database);
    let report = assert_conformance(factory.with_large_responses(), &clock()).await;
    let skipped: Vec<_> = report.skipped().map(|(_, reason)| reason).collect();
    assert_eq!(
        skipped,
        ["the factory knows no limit on a record's size"; 4]
    );
    say(report);
    let left = database.items("large").await?;
    let pieces = left.iter().filter(|item| item.contains_key("data_piece"));
    assert_eq!(
        pieces.count(),
        left.len(),
        "the pieces stay until they expire"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_responses_conform_with_a_composite_key() -> Result<(), BoxError> {
    let database = Arc::new(EmbeddedDynamoDb::start().await?);
    let table = TableSpec::new("large").with_sort_key("sk");
    database.create_table(table).await?;
    let factory = TableFactory::new(quick_client(&database), "large")
        .composite("sk", "idempotency#one")
        .with_large_responses();
    assert_conformance(factory, &clock()).await;
    let left = database.items("large").await?;
    let partition = AttributeValue::S("idempotency#one".to_owned());
    assert!(!left.is_empty() && left.iter().all(|item| item["id"] == partition));
    Ok(())
}

#[tokio::test]
async fn two_partitions_of_one_table_share_no_records() -> Result<(), BoxError> {
    use idempotency_core::protocol::condition::Condition;
    use idempotency_core::record::Record;
    use idempotency_core::store::StoreReply;
    let database = EmbeddedDynamoDb::start().await?;
    database
        .create_table(TableSpec::new("composite").with_sort_key("sk"))
        .await?;
    let partition =
        |name: &str| TableFactory::new(database.client(), "composite").composite("sk", name);
    let (one, two) = (partition("idempotency#one"), partition("idempotency#two"));
    let (one, two) = (one.store().await?, two.store().await?);
    let (id, record) = (RecordId::new("charge#1"), Record::default());
    for store in [&one, &two] {
        assert!(matches!(
            store.put(&id, &record, &Condition::NoRecord).await,
            StoreReply::Applied { .. }
        ));
    }
    assert!(matches!(
        one.delete(&id, &Condition::All(Vec::new())).await,
        StoreReply::Applied { .. }
    ));
    assert!(matches!(
        one.get(&id).await,
        StoreReply::Found { record: None, .. }
    ));
    assert!(matches!(
        two.get(&id).await,
        StoreReply::Found {
            record: Some(_),
            ..
        }
    ));
    Ok(())
}

/// Checks that the suite fails for this store, and that these cases fail.
async fn is_caught(broken: Broken, cases: &[&str]) {
    let store = Arc::new(BrokenStore::new(broken));
    let report = check(broken::Factory(store), &clock()).await;
    for case in cases {
        assert!(
            report.failures().any(|(name, _)| name == *case),
            "{broken:?} is not caught by {case}\n{report}"
        );
    }
}

macro_rules! caught {
    ($($test:ident: $broken:ident by $($case:literal),+;)+) => {
        // One thread, so that concurrent calls interleave at each `yield_now`, under any load of the machine.
        $(#[tokio::test]
        async fn $test() {
            is_caught(Broken::$broken, &[$($case),+]).await;
        })+
    };
}

caught! {
    a_store_whose_updates_are_not_fenced_is_caught: UnfencedUpdate by
        "only_its_owner_completes_or_releases_a_claim",
        "an_owner_whose_claim_was_taken_over_changes_nothing";
    a_store_whose_releases_are_not_fenced_is_caught: UnfencedDelete by
        "only_its_owner_completes_or_releases_a_claim",
        "an_owner_whose_claim_was_taken_over_changes_nothing";
    a_store_that_fences_only_by_status_is_caught: OwnerIgnored by
        "only_its_owner_completes_or_releases_a_claim";
    a_store_that_compares_with_or_equal_is_caught: BelowOrEqual by
        "a_completed_record_can_be_claimed_only_after_its_last_second",
        "a_claim_can_be_taken_over_only_after_the_last_millisecond_of_its_lease";
    a_store_that_returns_another_record_than_the_old_one_is_caught: ReturnsAnotherRecord by
        "a_write_whose_condition_fails_changes_nothing_and_returns_the_record";
    a_store_that_checks_and_puts_in_two_steps_is_caught: PutInTwoSteps by
        "of_64_concurrent_claims_one_wins_and_the_others_get_its_record",
        "of_64_concurrent_takeovers_one_wins_and_the_others_get_its_record";
    a_store_that_checks_and_updates_in_two_steps_is_caught: UpdateInTwoSteps by
        "of_64_concurrent_sends_of_one_completion_one_is_applied";
    a_store_whose_put_keeps_old_attributes_is_caught: PutMerges by
        "a_put_replaces_the_whole_record",
        "an_event_that_was_removed_or_replaced_is_gone";
    a_store_whose_update_drops_other_attributes_is_caught: UpdateReplaces by
        "an_update_sets_its_attributes_and_keeps_the_others";
    a_store_whose_update_removes_nothing_is_caught: RemovesNothing by
        "an_update_removes_its_attributes_and_keeps_the_others",
        "an_event_that_was_removed_or_replaced_is_gone",
        "a_recorded_failure_makes_the_claim_claimable_under_every_policy";
    a_store_that_writes_although_the_condition_fails_is_caught: WritesWhenRefused by
        "a_write_whose_condition_fails_changes_nothing_and_returns_the_record";
    a_store_for_which_differs_needs_the_attribute_is_caught: DiffersNeedsAttribute by
        "only_differs_holds_for_an_absent_attribute",
        "a_record_with_another_status_or_none_is_live_until_its_window_ends";
    a_store_that_reads_late_is_caught: StaleReads by
        "every_read_sees_the_previous_write";
    a_store_whose_eventual_reads_mix_two_states_is_caught: MixesEventualReads by
        "an_eventual_read_returns_a_state_that_the_record_had";
    a_store_whose_eventual_reads_find_what_was_never_written_is_caught: InventsEventualReads by
        "an_eventual_read_of_an_id_without_a_record_finds_nothing";
    a_store_that_drops_empty_texts_is_caught: DropsEmptyTexts by
        "unusual_texts_read_back_unchanged";
    a_store_that_takes_a_part_of_an_event_for_the_whole_is_caught: MarksEventsAsWhole by
        "an_event_reads_back_unchanged_or_not_at_all";
    a_store_that_keeps_times_as_doubles_is_caught: TimesAsDoubles by
        "times_read_back_over_their_whole_range",
        "times_are_compared_as_numbers_to_the_last_digit";
    a_store_that_folds_the_case_of_ids_is_caught: FoldsIds by
        "ids_are_compared_byte_by_byte";
    a_store_that_keeps_64_kb_is_caught: CutsData by
        "a_response_of_any_length_is_read_back_as_it_was_written",
        "a_write_whose_condition_fails_changes_nothing_and_returns_the_record";
    a_store_that_hides_that_a_send_may_have_been_applied_is_caught: HidesLostSends by
        "a_write_whose_reply_is_lost_is_reported_as_maybe_applied";
    a_store_that_forgets_a_lost_send_when_it_sends_again_is_caught: ForgetsLostSends by
        "a_write_whose_reply_is_lost_is_reported_as_maybe_applied";
    a_store_that_says_of_each_put_that_it_replaced_nothing_is_caught: ReplacesNothing by
        "a_put_says_truly_what_it_replaced";
    a_store_that_treats_an_unreadable_attribute_as_missing_is_caught: UnreadableIsMissing by
        "an_attribute_of_a_wrong_type_is_present_and_unreadable",
        "a_foreign_record_can_be_claimed_as_its_attributes_say";
    a_store_that_reports_a_large_record_as_rejected_is_caught: TooLargeIsRejected by
        "a_put_beyond_the_limit_is_too_large_and_changes_nothing";
    a_store_whose_step_replaces_the_others_is_caught: StepReplacesOthers by
        "a_step_is_added_beside_the_others_or_replaces_its_result",
        "a_step_of_a_record_without_steps_changes_nothing";
    a_store_that_panics_fails_the_case_and_not_the_suite: PanicsOnEmptyChange by
        "a_change_that_is_empty_or_removes_what_is_absent_changes_nothing";
}
