//! A table of DynamoDB: it is created with TTL, and checked.

use std::time::Duration;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, MultiRegionConsistency,
    PointInTimeRecoverySpecification, PointInTimeRecoveryStatus, ScalarAttributeType,
    SseSpecification, SseStatus, TableDescription, TableStatus, TimeToLiveSpecification,
    TimeToLiveStatus,
};
use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Attribute, Record, RecordId};
use idempotency_core::store::{
    Change, Consistency, SendLog, Store, StoreError, StoreErrorKind, StoreReply, StoreRequest,
    Write,
};

use super::{Finding, Verdict, finding};
use crate::connection::Table;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::template::{ACTIONS, WARM_UP_ID};
use crate::terminal::warn;

pub(super) async fn findings(on: &Table, prefix: Option<&str>) -> Result<Vec<Finding>, Failure> {
    let table = &on.config.table;
    let mut findings = Vec::new();
    let mut is_strong = false;
    let described = on.client.describe_table().table_name(table);
    match described.send().await {
        Ok(output) => {
            let table = output.table.ok_or_else(|| on.no_table())?;
            findings.extend([
                exists(&table),
                keys(&table, on),
                billing(&table),
                protection(&table),
                encryption(&table),
            ]);
            findings.extend(replicas(&table));
            is_strong = is_strongly_consistent(&table);
        }
        Err(error) => match error.code() {
            Some("ResourceNotFoundException") => {
                let detail = "the table does not exist: create it with `idempotency table create`";
                return Ok(vec![finding("table", Verdict::Wrong, detail)]);
            }
            Some("AccessDeniedException") => {
                let detail = on.failed("DescribeTable", &error).message;
                findings.push(finding("table", Verdict::Unknown, detail));
            }
            // If this request fails, the others will fail too.
            _ => return Err(on.failed("DescribeTable", &error)),
        },
    }
    findings.push(match is_strong {
        // DynamoDB does not offer it there.
        true => finding(
            "ttl",
            Verdict::Note,
            "not offered on a global table with strong consistency: delete expired records by a job of your own",
        ),
        false => ttl(on).await,
    });
    findings.push(recovery(on).await);
    findings.extend(permissions(on, prefix).await);
    Ok(findings)
}

fn exists(table: &TableDescription) -> Finding {
    match &table.table_status {
        Some(status @ (TableStatus::Active | TableStatus::Updating)) => {
            finding("table", Verdict::Ok, status.as_str())
        }
        Some(status @ TableStatus::InaccessibleEncryptionCredentials) => {
            let remedy = "its KMS key cannot be used: enable the key, cancel its deletion, and let its policy allow kms:Decrypt";
            finding(
                "table",
                Verdict::Wrong,
                format!("its status is {status}: {remedy}"),
            )
        }
        Some(status) => finding("table", Verdict::Wrong, format!("its status is {status}")),
        None => finding("table", Verdict::Unknown, "it has no status"),
    }
}

fn keys(table: &TableDescription, on: &Table) -> Finding {
    let described = |name: &str, kind: &KeyType| {
        let definitions = table.attribute_definitions();
        let definition = definitions
            .iter()
            .find(|definition| definition.attribute_name() == name);
        let of = definition.map_or("?", |definition| definition.attribute_type().as_str());
        let kind = match kind {
            KeyType::Hash => "partition",
            _ => "sort",
        };
        format!("{kind} key `{name}` ({of})")
    };
    let schema = table.key_schema().iter();
    let found = schema.map(|key| described(key.attribute_name(), key.key_type()));
    let mut found: Vec<_> = found.collect();
    found.sort();
    let found = found.join(", ");
    let text = ScalarAttributeType::S;
    let config = &on.config;
    let mut wanted = format!("partition key `{}` ({text})", config.partition_key());
    if let Some(sort_key) = &config.sort_key {
        wanted += &format!(", sort key `{sort_key}` ({text})");
    }
    if found == wanted {
        return finding("keys", Verdict::Ok, found);
    }
    let remedy = "set IDEMPOTENCY_KEY_ATTR and IDEMPOTENCY_SORT_KEY_ATTR, or create another table";
    let detail = format!("{found}, not {wanted}: {remedy}");
    finding("keys", Verdict::Wrong, detail)
}

fn billing(table: &TableDescription) -> Finding {
    let mode = table
        .billing_mode_summary()
        .and_then(|summary| summary.billing_mode());
    if mode == Some(&BillingMode::PayPerRequest) {
        return finding("billing", Verdict::Ok, "on demand");
    }
    let units = table.provisioned_throughput().map(|units| {
        let reads = units.read_capacity_units().unwrap_or(0);
        let writes = units.write_capacity_units().unwrap_or(0);
        format!(", {reads} read and {writes} write units")
    });
    let units = units.unwrap_or_default();
    let detail = format!(
        "provisioned{units}: calls fail when these units are used up: raise them, or use on-demand billing"
    );
    finding("billing", Verdict::Note, detail)
}

fn protection(table: &TableDescription) -> Finding {
    if table.deletion_protection_enabled() == Some(true) {
        return finding("protection", Verdict::Ok, "deletion protection is on");
    }
    let detail =
        "deletion protection is off: if the table is deleted, each late duplicate runs again";
    finding("protection", Verdict::Note, detail)
}

fn encryption(table: &TableDescription) -> Finding {
    let check = "encryption";
    let Some(encryption) = table.sse_description() else {
        let detail = "with a key of DynamoDB, not with one of KMS: `store_event` is refused at the start, and no key policy limits who \
                      reads responses";
        return finding(check, Verdict::Note, detail);
    };
    let key = encryption.kms_master_key_arn().unwrap_or("an unknown key");
    if let Some(since) = encryption.inaccessible_encryption_date_time() {
        let detail = format!(
            "DynamoDB cannot use {key} since {since}: enable the key, and allow DynamoDB in its policy"
        );
        return finding(check, Verdict::Wrong, detail);
    }
    match encryption.status() {
        Some(SseStatus::Enabled | SseStatus::Updating) => {
            finding(check, Verdict::Ok, format!("by KMS with {key}"))
        }
        status => {
            let status = status.map_or("unknown", SseStatus::as_str);
            finding(check, Verdict::Unknown, format!("its status is {status}"))
        }
    }
}

/// Returns true for a global table whose regions see one record (MRSC).
fn is_strongly_consistent(table: &TableDescription) -> bool {
    table.multi_region_consistency() == Some(&MultiRegionConsistency::Strong)
}

/// Returns the finding about a global table; `None` for a table of one region.
fn replicas(table: &TableDescription) -> Option<Finding> {
    let check = "replicas";
    let regions = table.replicas().iter();
    let regions: Vec<_> = regions.filter_map(|it| it.region_name()).collect();
    if regions.is_empty() && table.global_table_version().is_none() {
        return None;
    }
    let regions = regions.join(", ");
    if is_strongly_consistent(table) {
        let detail = format!("{regions}, with strong consistency: staged writes are refused there");
        return Some(finding(check, Verdict::Note, detail));
    }
    let detail = format!(
        "{regions}, with eventual consistency: two regions with one key both run, so an effect can happen twice; use one region for \
         each key, or a global table with strong consistency"
    );
    Some(finding(check, Verdict::Note, detail))
}

async fn ttl(on: &Table) -> Finding {
    let config = &on.config;
    let wanted = config.ttl_attribute();
    let request = on.client.describe_time_to_live().table_name(&config.table);
    let description = match request.send().await {
        Ok(output) => output.time_to_live_description,
        Err(error) => {
            let detail = on.failed("DescribeTimeToLive", &error).message;
            return finding("ttl", Verdict::Unknown, detail);
        }
    };
    let remedy = format!("switch it on for `{wanted}`; without it the table grows without limit");
    let Some(description) = description else {
        return finding("ttl", Verdict::Wrong, format!("off: {remedy}"));
    };
    let attribute = description.attribute_name().unwrap_or("?");
    match description.time_to_live_status() {
        Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling) if attribute == wanted => {
            finding("ttl", Verdict::Ok, format!("on `{attribute}`"))
        }
        Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling) => {
            let detail = format!("on `{attribute}`, not on `{wanted}`: {remedy}");
            finding("ttl", Verdict::Wrong, detail)
        }
        _ => finding("ttl", Verdict::Wrong, format!("off: {remedy}")),
    }
}

async fn recovery(on: &Table) -> Finding {
    let check = "recovery";
    let request = on.client.describe_continuous_backups();
    match request.table_name(&on.config.table).send().await {
        Err(error) => {
            let detail = on.failed("DescribeContinuousBackups", &error).message;
            finding(check, Verdict::Unknown, detail)
        }
        Ok(output) => {
            let description = output.continuous_backups_description;
            let recovery = description.and_then(|it| it.point_in_time_recovery_description);
            match recovery.and_then(|it| it.point_in_time_recovery_status) {
                Some(PointInTimeRecoveryStatus::Enabled) => {
                    finding(check, Verdict::Ok, "point-in-time recovery is on")
                }
                _ => finding(check, Verdict::Note, "point-in-time recovery is off"),
            }
        }
    }
}

/// Checks that these credentials allow what a function does: on an id under this prefix, or on the id that a start reads. Each write
/// has a condition that cannot hold: if the condition fails, the write was allowed, and nothing is written.
async fn permissions(on: &Table, prefix: Option<&str>) -> Vec<Finding> {
    let store = &on.store;
    let id = prefix.map_or_else(
        || WARM_UP_ID.to_owned(),
        // No digest has a hyphen, so no record has this id.
        |prefix| format!("{prefix}#table-check"),
    );
    let id = RecordId::new(id);
    let never = Condition::All(vec![
        Condition::Exists(Attribute::Owner),
        Condition::Missing(Attribute::Owner),
    ]);
    let read = match store.warm_up(false).await {
        Ok(()) => tried(on, StoreRequest::Read(&id, Consistency::Strong)).await,
        denied => denied,
    };
    // Only the policy of a function that keeps to its own ids allows reads of this one, and no writes. With a sort key all ids have one
    // partition key.
    let only_read = prefix.is_none() && on.config.sort_key.is_none() && read.is_ok();
    let [get, put, update, delete] = ACTIONS;
    let mut findings = vec![allowed(get, &id, read, false)];
    for (action, write) in [
        (put, Write::Put(Record::default())),
        (update, Write::Update(Change::default())),
        (delete, Write::Delete),
    ] {
        let written = tried(on, StoreRequest::write(&id, &write, &never)).await;
        findings.push(allowed(action, &id, written, only_read));
    }
    findings
}

async fn tried(on: &Table, request: StoreRequest<'_>) -> Result<(), StoreError> {
    match on.store.send(request, &SendLog::new()).await {
        StoreReply::Failed { error, .. } => Err(error),
        _ => Ok(()),
    }
}

/// Returns the finding about an action. `only_read` is true if the policy of a function need not allow this write on this id.
fn allowed(
    action: &'static str,
    id: &RecordId,
    result: Result<(), StoreError>,
    only_read: bool,
) -> Finding {
    let Err(error) = result else {
        let detail = format!("allowed for these credentials on `{id}`");
        return finding(action, Verdict::Ok, detail);
    };
    match error.kind() {
        StoreErrorKind::AccessDenied if only_read => {
            let detail = format!(
                "denied on `{id}`, which a function only reads: add `--prefix PREFIX` to try it on the records of an operation ({error})"
            );
            finding(action, Verdict::Unknown, detail)
        }
        StoreErrorKind::AccessDenied => finding(action, Verdict::Wrong, error.to_string()),
        _ => finding(action, Verdict::Unknown, error.to_string()),
    }
}

/// The pause between two checks of the new table. Usually it is active after some seconds.
const PAUSE: Duration = Duration::from_secs(1);
/// The number of checks.
const MAX_CHECKS: u32 = 300;

pub(super) async fn create(on: &Table, as_json: bool) -> Result<(), Failure> {
    let (config, client) = (&on.config, &on.client);
    let (table, key, ttl) = (
        &config.table,
        config.partition_key(),
        config.ttl_attribute(),
    );
    let mut request = client
        .create_table()
        .table_name(&config.table)
        .billing_mode(BillingMode::PayPerRequest)
        .deletion_protection_enabled(true)
        .sse_specification(SseSpecification::builder().enabled(true).build());
    let sort_key = config
        .sort_key
        .as_deref()
        .map(|name| (name, KeyType::Range));
    for (name, kind) in [(key, KeyType::Hash)].into_iter().chain(sort_key) {
        let definition = AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S);
        let key = KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(kind);
        request = request
            .attribute_definitions(definition.build().map_err(incomplete)?)
            .key_schema(key.build().map_err(incomplete)?);
    }
    request.send().await.map_err(|error| {
        if error.code() == Some("ResourceInUseException") {
            let message = format!(
                "the table `{}` exists already: check it with `idempotency table check`",
                config.table
            );
            return Failure::new(Exit::Failed, message);
        }
        on.failed("CreateTable", &error)
    })?;
    until_active(on).await?;
    let specification = TimeToLiveSpecification::builder()
        .attribute_name(ttl)
        .enabled(true)
        .build()
        .map_err(incomplete)?;
    let request = client.update_time_to_live().table_name(&config.table);
    request
        .time_to_live_specification(specification)
        .send()
        .await
        .map_err(|error| {
            let mut failure = on.failed("UpdateTimeToLive", &error);
            failure.message += &format!("; the table was created: switch TTL on for `{ttl}`");
            failure
        })?;
    let recovery = PointInTimeRecoverySpecification::builder()
        .point_in_time_recovery_enabled(true)
        .build()
        .map_err(incomplete)?;
    let request = client
        .update_continuous_backups()
        .table_name(&config.table)
        .point_in_time_recovery_specification(recovery);
    if let Err(error) = request.send().await {
        let why = on.failed("UpdateContinuousBackups", &error).message;
        warn(format_args!(
            "the table was created without point-in-time recovery: {why}"
        ));
    }
    let json = || {
        json::object()
            .bool("created", true)
            .text("table", table)
            .text("partition_key", key)
            .with("sort_key", config.sort_key.as_ref().map(json::text))
            .text("ttl", ttl)
    };
    let sort_key = config.sort_key.iter();
    let sort_key: String = sort_key
        .map(|name| format!(", sort key `{name}`"))
        .collect();
    let text = format_args!(
        "created the table `{table}`: partition key `{key}`{sort_key}, on demand, TTL on `{ttl}`\n"
    );
    json::print(as_json, json, text)
}

/// Waits until the table is active.
async fn until_active(on: &Table) -> Result<(), Failure> {
    let table = &on.config.table;
    for _ in 0..MAX_CHECKS {
        let described = on.client.describe_table().table_name(table);
        match described.send().await {
            Ok(output) => {
                let status = output.table.and_then(|table| table.table_status);
                if status == Some(TableStatus::Active) {
                    return Ok(());
                }
            }
            // A new table may not be visible yet.
            Err(error) if error.code() == Some("ResourceNotFoundException") => {}
            Err(error) => return Err(on.failed("DescribeTable", &error)),
        }
        tokio::time::sleep(PAUSE).await;
    }
    let message = format!(
        "the table `{table}` is not active yet and has no TTL: switch TTL on when `idempotency table check` reports it as ACTIVE"
    );
    Err(Failure::new(Exit::Failed, message))
}

/// Converts the error of an SDK builder with a missing field. All required fields are set.
fn incomplete(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, error)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::{ReplicaDescription, SseDescription};

    use super::*;

    #[test]
    fn a_global_table_says_what_two_regions_do_with_one_key() {
        let table = |consistency: Option<MultiRegionConsistency>, regions: &[&str]| {
            let regions = regions
                .iter()
                .map(|region| ReplicaDescription::builder().region_name(*region).build());
            let table = TableDescription::builder()
                .set_replicas(Some(regions.collect()))
                .set_multi_region_consistency(consistency);
            replicas(&table.build()).map(|finding| (finding.verdict, finding.detail))
        };
        assert_eq!(table(None, &[]), None);
        for consistency in [None, Some(MultiRegionConsistency::Eventual)] {
            let (verdict, detail) = table(consistency, &["eu-west-1", "us-east-1"]).unwrap();
            assert_eq!(verdict, Verdict::Note);
            let says = "eu-west-1, us-east-1, with eventual consistency: two regions with one key both run";
            assert!(detail.starts_with(says), "{detail}");
        }
        let (_, detail) = table(Some(MultiRegionConsistency::Strong), &["eu-west-1"]).unwrap();
        assert!(
            detail.contains("with strong consistency: staged writes are refused"),
            "{detail}"
        );
    }

    #[test]
    fn encryption_names_the_key_and_a_key_that_cannot_be_used() {
        let table = |sse: Option<SseDescription>| {
            encryption(&TableDescription::builder().set_sse_description(sse).build())
        };
        let by = |status: SseStatus| {
            SseDescription::builder()
                .status(status)
                .kms_master_key_arn("arn:1")
        };
        let without = table(None);
        assert_eq!(without.verdict, Verdict::Note);
        let by_kms = table(Some(by(SseStatus::Enabled).build()));
        assert_eq!(
            (by_kms.verdict, &*by_kms.detail),
            (Verdict::Ok, "by KMS with arn:1")
        );
        let since = aws_sdk_dynamodb::primitives::DateTime::from_secs(1);
        let lost = by(SseStatus::Enabled)
            .inaccessible_encryption_date_time(since)
            .build();
        let lost = table(Some(lost));
        assert_eq!(lost.verdict, Verdict::Wrong);
        assert!(lost.detail.contains("cannot use arn:1"), "{}", lost.detail);
    }
}
