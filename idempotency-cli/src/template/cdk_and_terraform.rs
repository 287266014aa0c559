//! CDK in TypeScript, and Terraform.

use super::example::{part, replaced};
use super::{Description, text, texts};

/// Returns a construct for CDK.
pub(super) fn construct(description: &Description) -> String {
    let example = include_str!("idempotency-table.ts");
    let partition_key = text(&description.partition_key);
    let sort_key = description.sort_key.iter().map(|name| {
        let name = text(name);
        format!("      sortKey: {{ name: {name}, type: AttributeType.STRING }},\n")
    });
    let sort_key: String = sort_key.collect();
    let name = description.table.iter();
    let name = name.map(|name| format!("tableName: {}", text(name)));
    let alarms = description.alarms.iter();
    let alarms = alarms.map(|namespace| {
        let namespace = text(namespace);
        format!("alarms: {{ namespace: {namespace}, email: props?.alarmEmail }}")
    });
    let key = description.kms_key.iter();
    let key = key.map(|key| format!("kmsKeyArn: {}", text(key)));
    let props: Vec<_> = name.chain(key).chain(alarms).collect();
    let props = match props.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{ {} }}", props.join(", ")),
    };
    let policies = description.policies();
    let records = policies.iter().map(|(function, keys)| {
        let arguments = texts([function].into_iter().chain(keys));
        format!("    idempotency.records({arguments});\n")
    });
    let mut parts = vec![
        (
            "name: \"id\", type: AttributeType.STRING },\n",
            format!("name: {partition_key}, type: AttributeType.STRING }},\n{sort_key}"),
        ),
        ("\"expiration\"", text(&description.expiration)),
        (
            "{ alarms: { namespace: \"Payments\", email: props?.alarmEmail } }",
            props,
        ),
        (
            "    idempotency.records(\"Payment\", \"payments#*\");\n",
            records.collect(),
        ),
        ("dynamodb:Scan", description.listing().to_owned()),
    ];
    if description.sort_key.is_some() {
        let warm_up = part(example, "    if (leadingKeys.length > 0) {\n", "    }\n");
        parts.push((warm_up, String::new()));
    }
    replaced(example, &parts)
}

/// Returns a module for Terraform or OpenTofu.
pub(super) fn module(description: &Description) -> String {
    let example = include_str!("table.tf");
    let name = description.table.as_deref().unwrap_or("idempotency");
    let or_null = |value: &Option<String>| {
        let value = value.as_ref();
        value.map_or_else(|| "null".to_owned(), |value| text(value))
    };
    let policies = description.policies();
    let widest = policies.iter().map(|(function, _)| function.len()).max();
    let widest = widest.unwrap_or_default();
    let functions = policies
        .iter()
        .map(|(function, keys)| format!("    {function:widest$} = [{}]\n", texts(keys)));
    let mut hash_key = format!("hash_key     = {}\n", text(&description.partition_key));
    let attribute = |name: &str| format!("name = {}\n    type = \"S\"\n  }}\n", text(name));
    let mut attributes = attribute(&description.partition_key);
    let mut parts = vec![
        ("\"idempotency\"\n", text(name) + "\n"),
        ("    Payment = [\"payments#*\"]\n", functions.collect()),
        ("\"Payments\"", or_null(&description.alarms)),
        ("\"expiration\"", text(&description.expiration)),
        ("dynamodb:Scan", description.listing().to_owned()),
    ];
    let no_key = part(example, "variable \"kms_key_arn\"", "null\n");
    let key = no_key.replace("null", &or_null(&description.kms_key));
    parts.push((no_key, key));
    if let Some(sort_key) = &description.sort_key {
        hash_key += &format!("  range_key    = {}\n", text(sort_key));
        attributes += &format!("\n  attribute {{\n    {}", attribute(sort_key));
        let warm_up = part(example, "\n  # A start only reads this id.\n", "\n  }\n");
        parts.push((warm_up, String::new()));
    }
    parts.push(("hash_key     = \"id\"\n", hash_key));
    parts.push(("name = \"id\"\n    type = \"S\"\n  }\n", attributes));
    replaced(example, &parts)
}
