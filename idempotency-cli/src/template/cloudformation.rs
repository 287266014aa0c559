//! CloudFormation: as the YAML of a SAM template, with comments, and as JSON.

use serde_json::{Map, Value, json};

use super::example::{part, replaced};
use super::{Description, text};

/// What DynamoDB does with the table's key on behalf of the caller that reads or writes, and the condition that it is DynamoDB:
/// <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html>. The role that creates the table needs more.
fn decrypt(key: &str) -> Value {
    json!({
        "Effect": "Allow",
        "Action": ["kms:Decrypt"],
        "Resource": key,
        "Condition": { "StringLike": { "kms:ViaService": ["dynamodb.*"] } },
    })
}

/// Returns the template for `sam deploy`, or as a part of a SAM template.
pub(super) fn yaml(description: &Description) -> String {
    let example = include_str!("table.yaml");
    let table = description.table.iter();
    let table = table.map(|name| format!("      TableName: {}\n", scalar(name)));
    let key_attribute = |member: &str| {
        let keys = [&description.partition_key].into_iter();
        let keys = keys.chain(&description.sort_key).zip(["HASH", "RANGE"]);
        let line = |(name, kind): (&String, &str)| {
            let member = member.replace("HASH", kind);
            format!("AttributeName: {}\n          {member}", scalar(name))
        };
        let lines: Vec<_> = keys.map(line).collect();
        lines.join("\n        - ")
    };
    let key = description.kms_key.as_deref().map(scalar);
    let encryption = key.iter();
    let encryption =
        encryption.map(|key| format!("        SSEType: KMS\n        KMSMasterKeyId: {key}\n"));
    let decrypt = key.iter().map(|key| {
        format!(
            "          - Effect: Allow\n            Action:\n              - kms:Decrypt\n            Resource: {key}\n            Condition:\n              StringLike:\n                kms:ViaService: [\"dynamodb.*\"]\n"
        )
    });
    let decrypt: String = decrypt.collect();
    let own = part(example, "  PaymentRecords:", "[\"#warm-up\"]\n");
    let last = "- dynamodb:DescribeContinuousBackups\n            Resource: !GetAtt IdempotencyTable.Arn\n";
    let mut parts = vec![
        (
            "      # Nor by hand.\n",
            table.collect::<String>() + "      # Nor by hand.\n",
        ),
        (
            "AttributeName: id\n          AttributeType: S",
            key_attribute("AttributeType: S"),
        ),
        (
            "AttributeName: id\n          KeyType: HASH",
            key_attribute("KeyType: HASH"),
        ),
        (
            "AttributeName: expiration",
            format!("AttributeName: {}", scalar(&description.expiration)),
        ),
        (
            "        SSEEnabled: true\n",
            "        SSEEnabled: true\n".to_owned() + &encryption.collect::<String>(),
        ),
        (own, yaml_policies(description, own, &decrypt)),
        ("dynamodb:Scan", description.listing().to_owned()),
        (last, last.to_owned() + &decrypt),
    ];
    match &description.alarms {
        Some(namespace) => parts.push(("SCHEMA(Payments,", format!("SCHEMA({namespace},"))),
        None => parts.extend([
            (part(example, "\nParameters:\n", "\"\"]]\n"), String::new()),
            (
                part(example, "\n  # Each alarm on the", "\nOutputs:\n"),
                "\nOutputs:\n".to_owned(),
            ),
        ]),
    }
    replaced(example, &parts)
}

/// Returns a policy for each function, like that of the example.
fn yaml_policies(description: &Description, example: &str, decrypt: &str) -> String {
    let condition = part(example, "            Condition:\n", "[\"payments#*\"]\n");
    let warm_up = "          - Effect: Allow\n            Action:\n              - dynamodb:GetItem\n            Resource";
    let warm_up = part(example, warm_up, "[\"#warm-up\"]\n");
    let policies = description.policies().into_iter().map(|(function, keys)| {
        let values: Vec<_> = keys.iter().map(|key| scalar(key)).collect();
        let mut parts = vec![
            ("PaymentRecords", function + "Records"),
            ("\"payments#*\"", values.join(", ")),
        ];
        if keys.is_empty() {
            parts.push((condition, String::new()));
        }
        if !description.reads_another(&keys) {
            parts.push((warm_up, String::new()));
        }
        replaced(example, &parts) + decrypt
    });
    policies.collect::<Vec<_>>().join("\n")
}

/// Returns the template for CloudFormation and programs that read it.
pub(super) fn json(description: &Description) -> String {
    let namespace = description.alarms.as_deref().unwrap_or_default();
    let example = replaced(
        include_str!("table.json"),
        &[
            ("\"id\"", text(&description.partition_key)),
            ("\"expiration\"", text(&description.expiration)),
            ("dynamodb:Scan", description.listing().to_owned()),
            ("SCHEMA(Payments,", format!("SCHEMA({namespace},")),
        ],
    );
    let mut template: Map<String, Value> = serde_json::from_str(&example).unwrap_or_default();
    if let Some(Value::Object(resources)) = template.get_mut("Resources") {
        change_resources(resources, description);
    }
    if description.alarms.is_none() {
        template.retain(|name, _| !["Parameters", "Conditions"].contains(&name.as_str()));
    }
    format!("{:#}\n", Value::from(template))
}

fn change_resources(resources: &mut Map<String, Value>, description: &Description) {
    let of_function = resources.remove("PaymentRecords").unwrap_or_default();
    if description.alarms.is_none() {
        resources.retain(|name, _| !name.contains("Alarm"));
    }
    let table = &mut resources["IdempotencyTable"]["Properties"];
    if let Some(name) = &description.sort_key {
        let definition = json!({ "AttributeName": name, "AttributeType": "S" });
        push(&mut table["AttributeDefinitions"], definition);
        let key = json!({ "AttributeName": name, "KeyType": "RANGE" });
        push(&mut table["KeySchema"], key);
    }
    if let Some(key) = &description.kms_key {
        table["SSESpecification"]["SSEType"] = "KMS".into();
        table["SSESpecification"]["KMSMasterKeyId"] = key.as_str().into();
    }
    if let Some(name) = &description.table {
        table["TableName"] = name.as_str().into();
    }
    for (function, keys) in description.policies() {
        let mut policy = of_function.clone();
        let statements = &mut policy["Properties"]["PolicyDocument"]["Statement"];
        if !description.reads_another(&keys)
            && let Value::Array(statements) = statements
        {
            statements.truncate(1);
        }
        statements[0]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] =
            keys.clone().into();
        if keys.is_empty()
            && let Value::Object(statement) = &mut statements[0]
        {
            statement.remove("Condition");
        }
        resources.insert(function + "Records", policy);
    }
    for (name, policy) in resources {
        if let Some(key) = &description.kms_key
            && name.ends_with("Records")
        {
            let statements = &mut policy["Properties"]["PolicyDocument"]["Statement"];
            push(statements, decrypt(key));
        }
    }
}

fn push(list: &mut Value, element: Value) {
    if let Value::Array(list) = list {
        list.push(element);
    }
}

/// Returns a text as YAML: plain if every reader reads it as this text.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "yes" | "no" | "on" | "off" | "null" | "y" | "n"
        )
        && !text.ends_with([' ', ':'])
        && ![": ", " #"].iter().any(|mark| text.contains(mark))
        && !text.contains(['[', ']', '{', '}', '*'])
        && !text.contains(|each: char| each.is_control());
    if plain {
        return text.to_owned();
    }
    // A JSON string is a YAML string.
    Value::from(text).to_string()
}
