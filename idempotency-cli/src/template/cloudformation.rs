//! CloudFormation: as the YAML of a SAM template, and as JSON.

use serde_json::{Map, Value};

use super::{ACTIONS, CALL_ALARMS, Description, THROTTLED_ALARM};

/// A value of a template.
enum Node {
    Text(String),
    Flag(bool),
    Number(u32),
    List(Vec<Node>),
    /// A list that YAML writes in one line.
    Line(Vec<Node>),
    Map(Vec<Entry>),
    /// An intrinsic function, such as `Ref`.
    Call(&'static str, Box<Node>),
}

/// A member of a map, with the lines of a comment above it.
struct Entry {
    comment: &'static [&'static str],
    name: String,
    value: Node,
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for Node {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u32> for Node {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

impl<const N: usize> From<[Entry; N]> for Node {
    fn from(entries: [Entry; N]) -> Self {
        Self::Map(entries.into())
    }
}

fn entry(name: &str, value: impl Into<Node>) -> Entry {
    let (name, value) = (name.to_owned(), value.into());
    Entry {
        comment: &[],
        name,
        value,
    }
}

impl Entry {
    fn with_comment(mut self, comment: &'static [&'static str]) -> Self {
        self.comment = comment;
        self
    }
}

fn reference(name: &str) -> Node {
    Node::Call("Ref", Box::new(name.into()))
}

fn attribute(name: &str) -> Node {
    Node::Call("GetAtt", Box::new(name.into()))
}

/// Returns the template for `sam deploy`, or as a part of a SAM template.
pub(super) fn yaml(description: &Description) -> String {
    let mut text = String::from("AWSTemplateFormatVersion: \"2010-09-09\"\n");
    for section in sections(description) {
        text.push('\n');
        write_entries(&mut text, &[section], 0, true);
    }
    text
}

/// Returns the template for CloudFormation and programs that read it.
pub(super) fn json(description: &Description) -> String {
    let mut template = Map::new();
    template.insert("AWSTemplateFormatVersion".to_owned(), "2010-09-09".into());
    for section in sections(description) {
        template.insert(section.name, value(section.value));
    }
    format!("{:#}\n", Value::Object(template))
}

fn sections(description: &Description) -> Vec<Entry> {
    let mut sections = vec![entry(
        "Description",
        "The table of idempotency records, and what functions may do with it.",
    )];
    let mut resources = vec![table(description)];
    let policies = description.policies().into_iter().enumerate();
    resources.extend(policies.map(|(number, (function, keys))| {
        policy(&function, &keys).with_comment(if number == 0 { POLICY_COMMENT } else { &[] })
    }));
    if let Some(namespace) = &description.alarms {
        let email = [
            entry("Type", "String"),
            entry("Default", ""),
            entry("AllowedPattern", "([^@\\s]+@[^@\\s]+)?"),
            entry(
                "Description",
                "Address that gets a mail for each alarm, after it has confirmed the subscription. Empty for no mail.",
            ),
        ];
        sections.push(entry("Parameters", [entry("AlarmEmail", email)]));
        let empty = Node::Line(vec![reference("AlarmEmail"), "".into()]);
        let equals = Node::Call("Equals", Box::new(empty));
        let not = Node::Call("Not", Box::new(Node::Line(vec![equals])));
        sections.push(entry("Conditions", [entry("SendMail", not)]));
        resources.push(topic());
        resources.extend(CALL_ALARMS.map(|(name, metric, text)| {
            let alarm = call_alarm(namespace, name, metric, text);
            alarm.with_comment(if name == "HeldKeysAlarm" {
                &[
                    "Counts the calls that a held key refuses, so the alarm ends when no duplicate comes any more. The key is still held.",
                ]
            } else {
                &[]
            })
        }));
        resources.push(throttled_alarm());
    }
    sections.push(entry("Resources", Node::Map(resources)));
    let name = [
        entry("Description", "The value of IDEMPOTENCY_TABLE."),
        entry("Value", reference("IdempotencyTable")),
    ];
    sections.push(entry("Outputs", [entry("IdempotencyTableName", name)]));
    sections
}

fn resource(name: &str, kind: &str, properties: Vec<Entry>) -> Entry {
    entry(
        name,
        [
            entry("Type", kind),
            entry("Properties", Node::Map(properties)),
        ],
    )
}

fn table(description: &Description) -> Entry {
    let keys = [(&description.partition_key, "HASH")]
        .into_iter()
        .chain(description.sort_key.as_ref().map(|name| (name, "RANGE")));
    let definition = |(name, _): (&String, _)| -> Node {
        [
            entry("AttributeName", name.as_str()),
            entry("AttributeType", "S"),
        ]
        .into()
    };
    let key = |(name, kind): (&String, &str)| -> Node {
        [
            entry("AttributeName", name.as_str()),
            entry("KeyType", kind),
        ]
        .into()
    };
    let mut properties: Vec<_> = description
        .table
        .iter()
        .map(|name| entry("TableName", name.as_str()))
        .collect();
    properties.extend([
        entry("DeletionProtectionEnabled", true).with_comment(&["Nor by hand."]),
        entry("BillingMode", "PAY_PER_REQUEST"),
        entry(
            "AttributeDefinitions",
            Node::List(keys.clone().map(definition).collect()),
        ),
        entry("KeySchema", Node::List(keys.map(key).collect())),
        entry(
            "TimeToLiveSpecification",
            [
                entry("AttributeName", description.expiration.as_str()),
                entry("Enabled", true),
            ],
        )
        .with_comment(&[
            "TTL only cleans up, sometimes days late. The functions themselves check whether a record has expired, to the second.",
        ]),
        entry(
            "PointInTimeRecoverySpecification",
            [entry("PointInTimeRecoveryEnabled", true)],
        ),
        entry("SSESpecification", [entry("SSEEnabled", true)])
            .with_comment(&["Records hold the handlers' responses."]),
    ]);
    entry(
        "IdempotencyTable",
        [
            entry("Type", "AWS::DynamoDB::Table"),
            entry("DeletionPolicy", "Retain").with_comment(&[
                "If the table were deleted with its stack, every stored response would be lost, and each late duplicate would run again.",
            ]),
            entry("UpdateReplacePolicy", "Retain"),
            entry("Properties", Node::Map(properties)),
        ],
    )
}

const POLICY_COMMENT: &[&str] = &[
    "What a function may do with the table. This is all that the framework needs: no queries, no scans, no access to the table itself.",
    "(`store_event` also needs dynamodb:DescribeTable.) With `dynamodb:LeadingKeys` a function reads and writes records under the",
    "prefixes of its own operations, with the pieces of large responses, and `#warm-up`, which a start reads. A function that stages",
    "writes (docs/guide/transactions.md) also needs dynamodb:PutItem, UpdateItem, DeleteItem or ConditionCheckItem, as it stages them,",
    "on each table of its own. dynamodb:TransactWriteItems is no permission of its own.",
];

/// Returns the policy of the four actions on the records with these partition keys, or on all records.
fn policy(function: &str, leading_keys: &[String]) -> Entry {
    let mut statement = vec![
        entry("Effect", "Allow"),
        entry("Action", Node::List(ACTIONS.map(Node::from).into())),
        entry("Resource", attribute("IdempotencyTable.Arn")),
    ];
    if !leading_keys.is_empty() {
        let keys = leading_keys.iter().map(|key| key.as_str().into());
        let condition = [entry("dynamodb:LeadingKeys", Node::Line(keys.collect()))];
        let condition = [entry("ForAllValues:StringLike", condition)];
        statement.push(entry("Condition", condition));
    }
    let document = [
        entry("Version", "2012-10-17"),
        entry("Statement", Node::List(vec![Node::Map(statement)])),
    ];
    let description = "Read and write idempotency records.";
    let properties = vec![
        entry("Description", description),
        entry("PolicyDocument", document),
    ];
    let name = format!("{function}Records");
    resource(&name, "AWS::IAM::ManagedPolicy", properties)
}

fn topic() -> Entry {
    let subscription: Node = [
        entry("Protocol", "email"),
        entry("Endpoint", reference("AlarmEmail")),
    ]
    .into();
    let subscription = entry("Subscription", Node::List(vec![subscription]));
    let topic = [
        entry("Type", "AWS::SNS::Topic"),
        entry("Condition", "SendMail"),
        entry("Properties", [subscription]),
    ];
    entry("AlarmTopic", topic).with_comment(&[
        "Each alarm on the functions' own metrics is a query over all functions and operations of the namespace: a new operation needs",
        "no new alarm, and the alarm names the function and the operation. Two stacks in one account and region share the namespace",
        "and so the alarms; where that is wrong, give each stack a namespace of its own.",
        "",
        "A metric is sent only when it happens. So missing data is the good case: `notBreaching`, and one minute with data is enough,",
        "because a function with few calls has no second one. Five minutes are evaluated because metrics from a log can arrive some",
        "minutes late. `Function` and `Operation` are words of the query language, so they are quoted.",
    ])
}

fn alarm(name: &str, text: &str, minutes: u32, metrics: Vec<Node>) -> Entry {
    let none = reference("AWS::NoValue");
    let actions = Node::Line(vec![reference("AlarmTopic")]);
    let actions = Node::Line(vec!["SendMail".into(), actions, none]);
    let properties = vec![
        entry(
            "AlarmDescription",
            format!("{text} See docs/guide/operating.md.").as_str(),
        ),
        entry("AlarmActions", Node::Call("If", Box::new(actions))),
        entry("ComparisonOperator", "GreaterThanThreshold"),
        entry("Threshold", 0),
        entry("EvaluationPeriods", 5),
        entry("DatapointsToAlarm", minutes),
        entry("TreatMissingData", "notBreaching"),
        entry("Metrics", Node::List(metrics)),
    ];
    resource(name, "AWS::CloudWatch::Alarm", properties)
}

fn call_alarm(namespace: &str, name: &str, metric: &str, text: &str) -> Entry {
    let query = format!(
        "SELECT SUM({metric}) FROM SCHEMA({namespace}, \"Function\", \"Operation\") GROUP BY \"Function\", \"Operation\" ORDER BY SUM() DESC"
    );
    let metric = [
        entry("Id", "calls"),
        entry("Expression", query.as_str()),
        entry("Period", 60),
    ];
    alarm(name, text, 1, vec![metric.into()])
}

fn throttled_alarm() -> Entry {
    let (name, text) = THROTTLED_ALARM;
    let sum: Node = [
        entry("Id", "throttled"),
        entry("Expression", "FILL(writes, 0) + FILL(reads, 0)")
            .with_comment(&["FILL, because a sum with a metric that is missing would be missing."]),
        entry("Label", "throttled requests"),
    ]
    .into();
    let events = |id: &str, metric: &str| -> Node {
        let dimension = [
            entry("Name", "TableName"),
            entry("Value", reference("IdempotencyTable")),
        ];
        let metric = [
            entry("Namespace", "AWS/DynamoDB"),
            entry("MetricName", metric),
            entry("Dimensions", Node::List(vec![dimension.into()])),
        ];
        let statistic = [
            entry("Stat", "Sum"),
            entry("Period", 60),
            entry("Metric", metric),
        ];
        [
            entry("Id", id),
            entry("ReturnData", false),
            entry("MetricStat", statistic),
        ]
        .into()
    };
    let metrics = vec![
        sum,
        events("writes", "WriteThrottleEvents"),
        events("reads", "ReadThrottleEvents"),
    ];
    alarm(name, text, 3, metrics)
}

/// Returns the JSON form, in which an intrinsic function is an object.
fn value(node: Node) -> Value {
    match node {
        Node::Text(text) => text.into(),
        Node::Flag(flag) => flag.into(),
        Node::Number(number) => number.into(),
        Node::List(items) | Node::Line(items) => items.into_iter().map(value).collect(),
        Node::Map(entries) => {
            let members = entries.into_iter();
            let members = members.map(|each| (each.name, value(each.value)));
            Value::Object(members.collect())
        }
        Node::Call(name, argument) => {
            let argument = match (name, *argument) {
                ("GetAtt", Node::Text(path)) => path.split('.').collect(),
                (_, argument) => value(argument),
            };
            let name = match name {
                "Ref" => name.to_owned(),
                _ => format!("Fn::{name}"),
            };
            Value::Object(Map::from_iter([(name, argument)]))
        }
    }
}

/// Writes the members of a map, each in a line of its own. `inner` is false if the caller has written the indentation of the first.
fn write_entries(text: &mut String, entries: &[Entry], indent: usize, mut inner: bool) {
    let margin = " ".repeat(indent);
    for Entry {
        comment,
        name,
        value,
    } in entries
    {
        for line in *comment {
            let line = format!("# {line}");
            text.push_str(&format!("{margin}{}\n", line.trim_end()));
        }
        if inner {
            text.push_str(&margin);
        }
        inner = true;
        text.push_str(name);
        text.push(':');
        match value {
            Node::Map(entries) => {
                text.push('\n');
                let apart = indent == 0 && name == "Resources";
                for (number, each) in entries.iter().enumerate() {
                    if apart && number > 0 {
                        text.push('\n');
                    }
                    write_entries(text, std::slice::from_ref(each), indent + 2, true);
                }
            }
            Node::List(items) => {
                text.push('\n');
                for item in items {
                    text.push_str(&format!("{margin}  - "));
                    match item {
                        Node::Map(entries) => write_entries(text, entries, indent + 4, false),
                        scalar => text.push_str(&format!("{}\n", inline(scalar))),
                    }
                }
            }
            scalar => text.push_str(&format!(" {}\n", inline(scalar))),
        }
    }
}

/// Returns a value in one line.
fn inline(node: &Node) -> String {
    match node {
        Node::Text(text) => scalar(text),
        Node::Flag(flag) => flag.to_string(),
        Node::Number(number) => number.to_string(),
        Node::Call(name, argument) => format!("!{name} {}", inline(argument)),
        Node::List(items) | Node::Line(items) => {
            let items: Vec<_> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Node::Map(_) => unreachable!("no map is in a line"),
    }
}

/// Returns a text as YAML: plain if every reader reads it as this text.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && !matches!(
            text,
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
