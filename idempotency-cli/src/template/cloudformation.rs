//! CloudFormation: as the YAML of a SAM template, with comments, and as JSON.

use serde_json::{Value, json};

use super::cdk_and_terraform::fill;
use super::{
    CALL_ALARMS, Description, FOR_FUNCTION, FOR_OPERATOR, OPERATOR, Statement, THROTTLED_ALARM,
};

/// Returns the template for `sam deploy`, or as a part of a SAM template.
pub(super) fn yaml(description: &Description) -> String {
    let line = |text: String| format!("{text}\n");
    let table = description.table.iter();
    let table = table.map(|name| line(format!("      TableName: {}", scalar(name))));
    let key = description.kms_key.iter();
    let key = key.map(|key| {
        let key = scalar(key);
        format!("        SSEType: KMS\n        KMSMasterKeyId: {key}\n")
    });
    let sort_key = |member: &str| {
        let name = description.sort_key.iter();
        let name = name.map(|name| {
            format!(
                "        - AttributeName: {}\n          {member}\n",
                scalar(name)
            )
        });
        name.collect()
    };
    let policies: Vec<_> = policies(description).iter().map(policy).collect();
    let namespace = description.alarms.as_deref().unwrap_or_default();
    let alarms = CALL_ALARMS
        .map(|alarm| call_alarm(namespace, alarm))
        .concat();
    let (throttled, meaning) = THROTTLED_ALARM;
    let alarms = alarms + &alarm("", throttled, meaning, 3, include_str!("throttled.yaml"));
    // The parts between two marks `@alarms@` are those of the alarms.
    let parts = include_str!("table.yaml").split("@alarms@").enumerate();
    let parts = parts.filter(|(number, _)| number % 2 == 0 || description.alarms.is_some());
    let template: String = parts.map(|(_, part)| part).collect();
    fill(
        &template,
        &[
            ("table_name", table.collect()),
            ("partition_key", scalar(&description.partition_key)),
            ("sort_definition", sort_key("AttributeType: S")),
            ("sort_key", sort_key("KeyType: RANGE")),
            ("expiration", scalar(&description.expiration)),
            ("kms_key", key.collect()),
            ("policies", policies.join("\n")),
            ("alarm_list", alarms),
        ],
    )
}

/// A policy: the name of the resource, what it is for, and what it allows.
type Policy = (String, &'static str, Vec<Statement>);

/// Returns the policies of the functions, and that of an operator.
fn policies(description: &Description) -> Vec<Policy> {
    let functions = description.policies().into_iter();
    let functions =
        functions.map(|(name, keys)| (name, FOR_FUNCTION, description.statements(keys)));
    let operator = (OPERATOR.to_owned(), FOR_OPERATOR, description.operator());
    let policies = functions.chain([operator]);
    policies
        .map(|(name, text, statements)| (name + "Records", text, statements))
        .collect()
}

fn policy((name, text, statements): &Policy) -> String {
    let statement = |statement: &Statement| {
        let actions = statement.actions.iter();
        let actions = actions.map(|action| format!("              - {action}\n"));
        let resource = match &statement.resource {
            Some(key) => scalar(key),
            None => "!GetAtt IdempotencyTable.Arn".to_owned(),
        };
        let condition = statement.condition.iter();
        let condition = condition.map(|(test, variable, values)| {
            let values: Vec<_> = values.iter().map(|value| scalar(value)).collect();
            let values = values.join(", ");
            format!(
                "            Condition:\n              {test}:\n                {variable}: [{values}]\n"
            )
        });
        let values = [
            ("actions", actions.collect()),
            ("resource", resource),
            ("condition", condition.collect()),
        ];
        fill(include_str!("statement.yaml"), &values)
    };
    let values = [
        ("name", name.clone()),
        ("text", scalar(text)),
        ("statements", statements.iter().map(statement).collect()),
    ];
    fill(include_str!("policy.yaml"), &values)
}

fn call_alarm(namespace: &str, (name, metric, meaning): (&str, &str, &str)) -> String {
    let comment = match name {
        "HeldKeysAlarm" => {
            "  # Counts the calls that a held key refuses, so the alarm ends when no duplicate comes any more. The key is still held.\n"
        }
        _ => "",
    };
    let query = query(namespace, metric);
    let metrics =
        format!("        - Id: calls\n          Expression: {query}\n          Period: 60\n");
    alarm(comment, name, meaning, 1, &metrics)
}

/// Returns an alarm that begins after this many minutes with data.
fn alarm(comment: &str, name: &str, meaning: &str, minutes: u32, metrics: &str) -> String {
    fill(
        include_str!("alarm.yaml"),
        &[
            ("comment", comment.to_owned()),
            ("name", name.to_owned()),
            ("text", explained(meaning)),
            ("minutes", minutes.to_string()),
            ("metrics", metrics.to_owned()),
        ],
    )
}

fn explained(meaning: &str) -> String {
    format!("{meaning} See docs/guide/operating.md.")
}

/// Returns the query of a metric over all functions and operations of the namespace.
fn query(namespace: &str, metric: &str) -> String {
    format!(
        "SELECT SUM({metric}) FROM SCHEMA({namespace}, \"Function\", \"Operation\") GROUP BY \"Function\", \"Operation\" ORDER BY SUM() DESC"
    )
}

/// Returns the template for CloudFormation and programs that read it.
pub(super) fn json(description: &Description) -> String {
    let keys = [(&description.partition_key, "HASH")].into_iter();
    let keys = keys.chain(description.sort_key.as_ref().map(|name| (name, "RANGE")));
    let definitions = keys
        .clone()
        .map(|(name, _)| json!({ "AttributeName": name, "AttributeType": "S" }));
    let schema = keys.map(|(name, kind)| json!({ "AttributeName": name, "KeyType": kind }));
    let mut properties = json!({
        "DeletionProtectionEnabled": true,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": definitions.collect::<Value>(),
        "KeySchema": schema.collect::<Value>(),
        "TimeToLiveSpecification": { "AttributeName": description.expiration, "Enabled": true },
        "PointInTimeRecoverySpecification": { "PointInTimeRecoveryEnabled": true },
        "SSESpecification": { "SSEEnabled": true },
    });
    if let Some(key) = &description.kms_key {
        properties["SSESpecification"]["SSEType"] = "KMS".into();
        properties["SSESpecification"]["KMSMasterKeyId"] = key.as_str().into();
    }
    if let Some(name) = &description.table {
        properties["TableName"] = name.as_str().into();
    }
    let mut template = json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "The table of idempotency records, and what functions may do with it.",
        "Resources": { "IdempotencyTable": {
            "Type": "AWS::DynamoDB::Table",
            "DeletionPolicy": "Retain",
            "UpdateReplacePolicy": "Retain",
            "Properties": properties,
        } },
        "Outputs": { "IdempotencyTableName": {
            "Description": "The value of IDEMPOTENCY_TABLE.",
            "Value": { "Ref": "IdempotencyTable" },
        } },
    });
    for (name, text, statements) in policies(description) {
        let statements = statements.into_iter().map(|each| {
            let table = || json!({ "Fn::GetAtt": ["IdempotencyTable", "Arn"] });
            let mut statement = json!({
                "Effect": "Allow",
                "Action": each.actions,
                "Resource": each.resource.map_or_else(table, Value::from),
            });
            if let Some((test, variable, values)) = each.condition {
                statement["Condition"] = json!({ test: { variable: values } });
            }
            statement
        });
        template["Resources"][name] = json!({
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {
                "Description": text,
                "PolicyDocument": { "Version": "2012-10-17", "Statement": statements.collect::<Value>() },
            },
        });
    }
    if let Some(namespace) = &description.alarms {
        add_alarms(&mut template, namespace);
    }
    format!("{template:#}\n")
}

fn add_alarms(template: &mut Value, namespace: &str) {
    template["Parameters"] = json!({ "AlarmEmail": {
        "Type": "String",
        "Default": "",
        "AllowedPattern": "([^@\\s]+@[^@\\s]+)?",
        "Description": "Address that gets a mail for each alarm, after it has confirmed the subscription. Empty for no mail.",
    } });
    template["Conditions"] =
        json!({ "SendMail": { "Fn::Not": [{ "Fn::Equals": [{ "Ref": "AlarmEmail" }, ""] }] } });
    let resources = &mut template["Resources"];
    resources["AlarmTopic"] = json!({
        "Type": "AWS::SNS::Topic",
        "Condition": "SendMail",
        "Properties": { "Subscription": [{ "Protocol": "email", "Endpoint": { "Ref": "AlarmEmail" } }] },
    });
    let alarm = |meaning: &str, minutes: u32, metrics: Value| {
        json!({
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmDescription": explained(meaning),
                "AlarmActions": { "Fn::If": ["SendMail", [{ "Ref": "AlarmTopic" }], { "Ref": "AWS::NoValue" }] },
                "ComparisonOperator": "GreaterThanThreshold",
                "Threshold": 0,
                "EvaluationPeriods": 5,
                "DatapointsToAlarm": minutes,
                "TreatMissingData": "notBreaching",
                "Metrics": metrics,
            },
        })
    };
    for (name, metric, meaning) in CALL_ALARMS {
        let calls =
            json!([{ "Id": "calls", "Expression": query(namespace, metric), "Period": 60 }]);
        resources[name] = alarm(meaning, 1, calls);
    }
    let events = |id: &str, metric: &str| {
        let table = json!({ "Name": "TableName", "Value": { "Ref": "IdempotencyTable" } });
        let metric =
            json!({ "Namespace": "AWS/DynamoDB", "MetricName": metric, "Dimensions": [table] });
        json!({
            "Id": id,
            "ReturnData": false,
            "MetricStat": { "Stat": "Sum", "Period": 60, "Metric": metric },
        })
    };
    let (name, meaning) = THROTTLED_ALARM;
    let throttled = json!([
        { "Id": "throttled", "Expression": "FILL(writes, 0) + FILL(reads, 0)", "Label": "throttled requests" },
        events("writes", "WriteThrottleEvents"),
        events("reads", "ReadThrottleEvents"),
    ]);
    resources[name] = alarm(meaning, 3, throttled);
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
