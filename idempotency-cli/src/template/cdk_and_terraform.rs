//! CDK in TypeScript, and Terraform: texts with marks such as `@expiration@`, which are filled in.

use super::{
    ACTIONS, CALL_ALARMS, DECRYPT, Description, FOR_FUNCTION, FOR_OPERATOR, OPERATOR,
    THROTTLED_ALARM, VIA_DYNAMODB, WARM_UP_ID,
};

/// Returns a construct for CDK.
pub(super) fn construct(description: &Description) -> String {
    let sort_key = description
        .sort_key
        .as_ref()
        .map_or_else(String::new, |name| {
            let name = text(name);
            format!("      sortKey: {{ name: {name}, type: AttributeType.STRING }},\n")
        });
    let call_alarms = CALL_ALARMS.map(|alarm| {
        let (id, metric, meaning) = alarm;
        format!("      [{}],\n", texts([id, metric, meaning]))
    });
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
        true => String::new(),
        false => format!(" {} ", props.join(", ")),
    };
    let policies = description.policies();
    let records = policies.iter().map(|(function, keys)| {
        let arguments = [function.as_str()].into_iter();
        let arguments = texts(arguments.chain(keys.iter().map(String::as_str)));
        format!("    idempotency.records({arguments});\n")
    });
    let [action, test, variable, value] = decrypt();
    fill(
        include_str!("construct.ts"),
        &[
            action,
            test,
            variable,
            value,
            ("partition_key", text(&description.partition_key)),
            ("sort_key", sort_key),
            ("expiration", text(&description.expiration)),
            ("actions", texts(ACTIONS)),
            ("warm_up", warm_up(description, include_str!("warm_up.ts"))),
            ("for_function", text(FOR_FUNCTION)),
            ("operator", OPERATOR.to_owned()),
            ("for_operator", text(FOR_OPERATOR)),
            ("operator_actions", texts(description.operator_actions())),
            ("call_alarms", call_alarms.concat()),
            ("throttled_alarm", texts(<[&str; 2]>::from(THROTTLED_ALARM))),
            ("props", props),
            ("records", records.collect()),
        ],
    )
}

/// Returns a module for Terraform or OpenTofu.
pub(super) fn module(description: &Description) -> String {
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
    let kms_key = description.kms_key.as_deref();
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
            ("kms_key", kms_key.map_or_else(|| "null".to_owned(), text)),
            ("decrypt", fill(include_str!("decrypt.tf"), &decrypt())),
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
            ("warm_up", warm_up(description, include_str!("warm_up.tf"))),
            ("for_function", text(FOR_FUNCTION)),
            ("operator", OPERATOR.to_owned()),
            ("for_operator", text(FOR_OPERATOR)),
            ("operator_actions", texts(description.operator_actions())),
            ("call_alarms", call_alarms.concat()),
            (
                "throttled_name",
                throttled.trim_end_matches("Alarm").to_owned(),
            ),
            ("throttled_text", text(&meaning)),
        ],
    )
}

/// Returns the values of the statement about the table's key.
fn decrypt() -> [(&'static str, String); 4] {
    let (test, variable, value) = VIA_DYNAMODB;
    [
        ("decrypt_action", text(DECRYPT)),
        ("test", text(test)),
        ("variable", text(variable)),
        ("value", text(value)),
    ]
}

/// Returns the part about the id that a function only reads. On a table with a sort key it has the partition key of all ids.
fn warm_up(description: &Description, part: &str) -> String {
    match description.sort_key {
        Some(_) => String::new(),
        None => fill(
            part,
            &[("read", text(ACTIONS[0])), ("id", text(WARM_UP_ID))],
        ),
    }
}

/// Returns a text as a string of JSON. TypeScript reads it as the same text, and Terraform too because it has no `${` and no `%{`.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns texts as JSON strings with commas between them.
fn texts<'a>(list: impl IntoIterator<Item = &'a str>) -> String {
    let list: Vec<_> = list.into_iter().map(text).collect();
    list.join(", ")
}

/// Returns a template with each `@name@` replaced by its value. Values are not searched: the name of an
/// attribute may contain `@`.
pub(super) fn fill(template: &str, values: &[(&str, String)]) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('@') {
        text.push_str(before);
        let mark = after.split_once('@');
        let value = mark.and_then(|(name, after)| {
            let (_, value) = values.iter().find(|(known, _)| *known == name)?;
            Some((value.as_str(), after))
        });
        let (value, after) = value.unwrap_or(("@", after));
        text.push_str(value);
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn a_value_that_looks_like_a_mark_is_a_value_and_an_unknown_mark_is_text() {
        let values = [("a", "@b@".to_owned()), ("b", "2".to_owned())];
        assert_eq!(fill("@x@a@ @b@, me@b.c, @", &values), "@x@b@ 2, me@b.c, @");
    }
}
