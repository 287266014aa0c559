//! Terraform, or OpenTofu.

use super::{ACTIONS, CALL_ALARMS, Description, THROTTLED_ALARM, fill, text, texts};

pub(super) fn hcl(description: &Description) -> String {
    let name = description.table.as_deref().unwrap_or("idempotency");
    let policies = description.policies();
    let widest = policies.iter().map(|(function, _)| function.len()).max();
    let functions: String = policies
        .iter()
        .map(|(function, keys)| {
            let keys = texts(keys.iter().map(String::as_str));
            format!(
                "    {function:widest$} = [{keys}]\n",
                widest = widest.unwrap_or(0)
            )
        })
        .collect();
    let namespace = description.alarms.as_deref();
    let key = description.sort_key.as_ref();
    let range_key = key.map(|name| format!("  range_key    = {}\n", text(name)));
    let sort_key = key.map(|name| {
        let name = text(name);
        format!("\n  attribute {{\n    name = {name}\n    type = \"S\"\n  }}\n")
    });
    let call_alarms = CALL_ALARMS.map(|(name, metric, meaning)| {
        let name = name.trim_end_matches("Alarm");
        format!(
            "    {name} = {{\n      metric = {}\n      text   = {}\n    }}\n",
            text(metric),
            text(meaning)
        )
    });
    let (throttled, meaning) = THROTTLED_ALARM;
    let meaning = format!("{meaning} See docs/guide/operating.md.");
    fill(
        include_str!("table.tf"),
        &[
            ("table_name", text(name)),
            ("functions", format!("{{\n{functions}  }}")),
            (
                "namespace",
                namespace.map_or_else(|| "null".to_owned(), text),
            ),
            ("partition_key", text(&description.partition_key)),
            ("range_key", range_key.unwrap_or_default()),
            ("sort_key", sort_key.unwrap_or_default()),
            ("expiration", text(&description.expiration)),
            ("actions", texts(ACTIONS)),
            ("call_alarms", call_alarms.concat()),
            (
                "throttled_name",
                throttled.trim_end_matches("Alarm").to_owned(),
            ),
            ("throttled_text", text(&meaning)),
        ],
    )
}
