//! `idempotency table template`. `tests/scripts/deploy.sh` compares the formats with each other.

use idempotency_testkit::dynamodb::TableSpec;
use serde_json::{Value, json};

use crate::{Ran, Table, command, finish};

/// The arguments of the files in `deploy`.
const DEPLOY: &str = "--function Payment=payments --alarms Payments";

fn file(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    std::fs::read_to_string(format!("{root}/{path}")).unwrap()
}

fn template(format: &str, options: &str, variables: &[(&str, &str)]) -> Ran {
    let mut command = command(&format!("table template --format {format} {options}"));
    command.envs(variables.iter().copied());
    finish(command, "")
}

#[test]
fn the_files_in_deploy_are_what_the_command_prints() {
    for (format, path) in [
        ("sam", "table.yaml"),
        ("cdk", "idempotency-table.ts"),
        ("terraform", "table.tf"),
        ("json", "table.json"),
    ] {
        let printed = template(format, DEPLOY, &[]).exits(0);
        assert!(
            printed.stdout == file(&format!("deploy/{path}")),
            "with the values of the example, {path} is another text"
        );
    }
}

#[test]
fn the_template_of_the_examples_has_the_text_that_the_command_prints() {
    let functions =
        "Payment=payment Http=refunds Orders=orders.reserve Ledger=ledger.post Shipping=shipping";
    let functions = functions.replace(' ', " --function ");
    let options = format!("--alarms IdempotencyExamples --function {functions}");
    let printed = template("sam", &options, &[]).stdout;
    let (_, resources) = printed.split_once("Resources:\n").unwrap();
    let (resources, _) = resources.split_once("\nOutputs:").unwrap();
    assert!(
        file("template.yaml").contains(resources),
        "copy this into template.yaml:\n{resources}"
    );
}

#[test]
fn the_migration_is_the_file_of_the_crate() {
    let file = file("idempotency-postgres/migrations/0001_idempotency.sql");
    for store in ["dynamodb", "postgres"] {
        let printed = template("sql", "", &[("IDEMPOTENCY_STORE", store)]).exits(0);
        assert_eq!(
            (printed.stdout, printed.stderr),
            (file.clone(), String::new())
        );
    }
}

/// Makes the table of a template in JSON, as CloudFormation would.
async fn deploy(database: &Table, template: &str, name: &str) {
    let template: Value = serde_json::from_str(template).unwrap();
    let table = &template["Resources"]["IdempotencyTable"]["Properties"];
    assert_eq!(table["BillingMode"], "PAY_PER_REQUEST");
    let ttl = &table["TimeToLiveSpecification"];
    assert_eq!(ttl["Enabled"], true);
    let mut spec = TableSpec::new(name).ttl(ttl["AttributeName"].as_str());
    let definitions = table["AttributeDefinitions"].as_array().unwrap();
    let schema = table["KeySchema"].as_array().unwrap();
    assert_eq!(definitions.len(), schema.len());
    for (definition, key) in definitions.iter().zip(schema) {
        let name = &key["AttributeName"];
        assert_eq!(
            definition,
            &json!({ "AttributeName": name, "AttributeType": "S" })
        );
        let name = name.as_str().unwrap();
        spec = match key["KeyType"].as_str().unwrap() {
            "HASH" => spec.partition_key(name),
            _ => spec.with_sort_key(name),
        };
    }
    database.create_table(spec).await.unwrap();
}

#[tokio::test]
async fn a_table_of_the_template_passes_the_check() {
    let database = Table::new(None).await;
    deploy(&database, &file("deploy/table.json"), "idempotency").await;
    let checked = database.run("table check --json");
    assert_eq!(checked.json(0)["ok"], true, "{checked:?}");

    let composite = [
        ("IDEMPOTENCY_KEY_ATTR", "pk"),
        ("IDEMPOTENCY_SORT_KEY_ATTR", "sk"),
        ("IDEMPOTENCY_EXPIRY_ATTR", "ends"),
        ("IDEMPOTENCY_STATIC_PK_VALUE", "shop"),
    ];
    let made = template("json", "--function Pay=pay --table shared", &composite);
    let json = made.json(0);
    let resources = &json["Resources"];
    let name = &resources["IdempotencyTable"]["Properties"]["TableName"];
    assert_eq!(name, "shared");
    let statement = &resources["PayRecords"]["Properties"]["PolicyDocument"]["Statement"][0];
    let keys = &statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"];
    assert_eq!(keys, &json!(["shop"]));
    let policy = &resources["PayRecords"]["Properties"]["PolicyDocument"];
    assert_eq!(policy["Statement"].as_array().unwrap().len(), 1);
    deploy(&database, &made.stdout, "shared").await;
    let mut check = command("table check --table shared");
    check.envs(database.environment()).envs(composite);
    let checked = finish(check, "").exits(0);
    checked.prints("partition key `pk` (S), sort key `sk` (S)");
}

#[test]
fn a_function_writes_its_own_records_and_only_reads_the_id_of_a_start() {
    let json = template("json", "--function Pay=pay,refunds", &[]).json(0);
    let policy = &json["Resources"]["PayRecords"]["Properties"]["PolicyDocument"];
    let statements = policy["Statement"].as_array().unwrap().iter();
    let allowed: Vec<_> = statements
        .map(|it| {
            let keys = &it["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"];
            (it["Action"].as_array().unwrap().len(), keys.clone())
        })
        .collect();
    let own = (4, json!(["pay#*", "refunds#*"]));
    assert_eq!(allowed, [own, (1, json!(["#warm-up"]))]);
}

#[test]
fn a_key_of_ones_own_encrypts_the_table_and_each_policy_allows_its_use_by_dynamodb() {
    let key = "arn:aws:kms:eu-west-1:111122223333:key/mrk-1234abcd";
    let json = template("json", &format!("--function Pay=pay --kms-key {key}"), &[]).json(0);
    let encryption = &json["Resources"]["IdempotencyTable"]["Properties"]["SSESpecification"];
    let by_key = json!({ "SSEEnabled": true, "SSEType": "KMS", "KMSMasterKeyId": key });
    assert_eq!(encryption, &by_key);
    for policy in ["PayRecords", "OperatorRecords"] {
        let document = &json["Resources"][policy]["Properties"]["PolicyDocument"];
        let last = document["Statement"].as_array().unwrap().last().unwrap();
        let by_dynamodb = json!({ "StringLike": { "kms:ViaService": ["dynamodb.*"] } });
        assert_eq!(last["Action"], json!(["kms:Decrypt"]), "{policy}");
        assert_eq!(last["Resource"], key, "{policy}");
        assert_eq!(last["Condition"], by_dynamodb, "{policy}");
    }
}

#[test]
fn without_functions_one_policy_allows_all_records_and_without_a_namespace_no_alarm_is_made() {
    let json = template("json", "", &[]).json(0);
    let resources = json["Resources"].as_object().unwrap();
    let names = ["FunctionRecords", "IdempotencyTable", "OperatorRecords"];
    assert!(resources.keys().eq(names));
    let policy = &resources["FunctionRecords"]["Properties"]["PolicyDocument"];
    assert_eq!(policy["Statement"][0].get("Condition"), None);
}

#[test]
fn settings_that_no_template_can_hold_say_what_to_write() {
    let arn = "arn:aws:dynamodb:eu-west-1:1:table/t";
    let unset = "set IDEMPOTENCY_STATIC_PK_VALUE as the functions have it";
    let twice = "--function Pay=a --function Pay=b";
    for (options, name, value, says) in [
        ("--function Pay=pay", "SORT_KEY_ATTR", "sk", unset),
        ("", "KEY_ATTR", "expiration", "expiration"),
        ("", "KEY_ATTR", "${a}", "cannot hold `${a}`"),
        ("", "TABLE", arn, "write the name, not an ARN"),
        ("--function Operator=a", "TABLE", "", "another name"),
        (twice, "TABLE", "", "two functions are called `Pay`"),
    ] {
        let name = format!("IDEMPOTENCY_{name}");
        template("sam", options, &[(&name, value)]).fails(2, says);
    }
}
