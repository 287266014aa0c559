//! `idempotency table template`. `tests/scripts/deploy.sh` compares the formats with each other.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
    TimeToLiveSpecification,
};
use idempotency_testkit::dynamodb::EmbeddedDynamoDb;
use serde_json::Value;

use crate::{Ran, command, run, run_on_table};

/// The arguments of the files in `deploy`.
const DEPLOY: [&str; 4] = ["--function", "Payment=payments", "--alarms", "Payments"];

fn file(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    std::fs::read_to_string(format!("{root}/{path}")).unwrap()
}

fn template(format: &str, options: &[&str], variables: &[(&str, &str)]) -> Ran {
    let arguments = [&["table", "template", "--format", format], options].concat();
    let mut command = command(&arguments);
    command.envs(variables.iter().copied());
    run(command)
}

#[test]
fn the_files_in_deploy_are_what_the_command_prints() {
    for (format, path) in [
        ("sam", "table.yaml"),
        ("cdk", "idempotency-table.ts"),
        ("terraform", "table.tf"),
        ("json", "table.json"),
    ] {
        let printed = template(format, &DEPLOY, &[]);
        printed.exits(0);
        assert!(
            printed.stdout == file(&format!("deploy/{path}")),
            "deploy/{path} differs: deploy/README.md has the command that makes it"
        );
    }
}

#[test]
fn the_template_of_the_examples_has_the_text_that_the_command_prints() {
    let functions = [
        "Payment=payment",
        "Http=refunds",
        "Orders=orders.reserve",
        "Ledger=ledger.post",
        "Shipping=shipping",
    ];
    let functions = functions.map(|each| ["--function", each]).concat();
    let options = [&["--alarms", "IdempotencyExamples"], functions.as_slice()].concat();
    let printed = template("sam", &options, &[]).stdout;
    let (_, resources) = printed.split_once("Resources:\n").unwrap();
    let (resources, _) = resources.split_once("\nOutputs:").unwrap();
    assert!(
        file("template.yaml").contains(resources),
        "copy this into template.yaml:\n{resources}"
    );
}

/// Makes the table of a template in JSON, as CloudFormation would.
async fn deploy(database: &EmbeddedDynamoDb, template: &str, name: &str) {
    let template: Value = serde_json::from_str(template).unwrap();
    let table = &template["Resources"]["IdempotencyTable"]["Properties"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let client = database.client();
    let mut request = client
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::from(&*text(&table["BillingMode"])));
    for each in table["AttributeDefinitions"].as_array().unwrap() {
        let definition = AttributeDefinition::builder()
            .attribute_name(text(&each["AttributeName"]))
            .attribute_type(ScalarAttributeType::from(&*text(&each["AttributeType"])));
        request = request.attribute_definitions(definition.build().unwrap());
    }
    for each in table["KeySchema"].as_array().unwrap() {
        let key = KeySchemaElement::builder()
            .attribute_name(text(&each["AttributeName"]))
            .key_type(KeyType::from(&*text(&each["KeyType"])));
        request = request.key_schema(key.build().unwrap());
    }
    request.send().await.unwrap();
    let ttl = TimeToLiveSpecification::builder()
        .attribute_name(text(&table["TimeToLiveSpecification"]["AttributeName"]))
        .enabled(table["TimeToLiveSpecification"]["Enabled"] == true);
    let request = client.update_time_to_live().table_name(name);
    let request = request.time_to_live_specification(ttl.build().unwrap());
    request.send().await.unwrap();
}

#[tokio::test]
async fn a_table_of_the_template_passes_the_check() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    deploy(&database, &file("deploy/table.json"), "idempotency").await;
    let checked = run_on_table(&database, &["table", "check", "--json"]);
    checked.exits(0);
    assert_eq!(checked.json()["ok"], true, "{checked:?}");

    let composite = [
        ("IDEMPOTENCY_KEY_ATTR", "pk"),
        ("IDEMPOTENCY_SORT_KEY_ATTR", "sk"),
        ("IDEMPOTENCY_EXPIRY_ATTR", "ends"),
        ("IDEMPOTENCY_STATIC_PK_VALUE", "shop"),
    ];
    let made = template(
        "json",
        &["--function", "Pay=pay", "--table", "shared"],
        &composite,
    );
    let json = made.json();
    let resources = &json["Resources"];
    assert_eq!(
        resources["IdempotencyTable"]["Properties"]["TableName"],
        "shared"
    );
    let statement = &resources["PayRecords"]["Properties"]["PolicyDocument"]["Statement"][0];
    let keys = &statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"];
    assert_eq!(keys, &serde_json::json!(["shop"]));
    deploy(&database, &made.stdout, "shared").await;
    let mut check = command(&["table", "check", "--table", "shared"]);
    check.envs(database.environment()).envs(composite);
    let checked = run(check);
    checked.exits(0);
    checked.prints("partition key `pk` (S), sort key `sk` (S)");
}

#[test]
fn without_functions_one_policy_allows_all_records_and_without_a_namespace_no_alarm_is_made() {
    let json = template("json", &[], &[]).json();
    let resources = json["Resources"].as_object().unwrap();
    assert!(resources.keys().eq(["FunctionRecords", "IdempotencyTable"]));
    let policy = &resources["FunctionRecords"]["Properties"]["PolicyDocument"];
    assert_eq!(policy["Statement"][0].get("Condition"), None);
}

#[test]
fn wrong_options_say_what_to_write() {
    for (options, says) in [
        (
            &["--format", "pulumi"][..],
            "[possible values: sam, cdk, terraform, json]",
        ),
        (
            &["--format", "sam", "--function", "payments"],
            "write NAME=PREFIX, such as Payment=payments",
        ),
        (
            &["--format", "sam", "--function", "my-fn=payments"],
            "`my-fn` cannot name a resource",
        ),
        (
            &["--format", "sam", "--function", "Pay=${x}"],
            "`${x}` is no prefix",
        ),
        (
            &["--format", "sam", "--function", "Pay="],
            "`` is no prefix",
        ),
        (
            &["--format", "sam", "--alarms", "My App"],
            "write a letter, then letters, digits and _",
        ),
    ] {
        let arguments = [&["table", "template"], options].concat();
        run(command(&arguments)).fails(2, says);
    }
    for (options, variable, says) in [
        (
            &["--function", "Pay=pay"][..],
            ("IDEMPOTENCY_SORT_KEY_ATTR", "sk"),
            "set IDEMPOTENCY_STATIC_PK_VALUE as the functions have it",
        ),
        (&[], ("IDEMPOTENCY_KEY_ATTR", "expiration"), "expiration"),
        (&[], ("IDEMPOTENCY_KEY_ATTR", "${a}"), "cannot hold `${a}`"),
        (
            &[],
            ("IDEMPOTENCY_TABLE", "arn:aws:dynamodb:eu-west-1:1:table/t"),
            "write the name, not an ARN",
        ),
        (
            &["--function", "Pay=a", "--function", "Pay=b"],
            ("IDEMPOTENCY_TABLE", ""),
            "two functions are called `Pay`",
        ),
    ] {
        template("sam", options, &[variable]).fails(2, says);
    }
}
