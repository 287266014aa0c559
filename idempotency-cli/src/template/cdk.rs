//! A construct for CDK in TypeScript.

use super::{ACTIONS, CALL_ALARMS, Description, THROTTLED_ALARM, fill, text, texts};

pub(super) fn typescript(description: &Description) -> String {
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
    let props: Vec<_> = name.chain(alarms).collect();
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
    fill(
        include_str!("construct.ts"),
        &[
            ("partition_key", text(&description.partition_key)),
            ("sort_key", sort_key),
            ("expiration", text(&description.expiration)),
            ("actions", texts(ACTIONS)),
            ("call_alarms", call_alarms.concat()),
            ("throttled_alarm", texts(<[&str; 2]>::from(THROTTLED_ALARM))),
            ("props", props),
            ("records", records.collect()),
        ],
    )
}
