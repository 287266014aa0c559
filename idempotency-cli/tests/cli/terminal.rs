//! What an operator meets in a terminal: options in any place.

use crate::{EARLY, LATE, Table, command, finish, run};

#[tokio::test]
async fn global_options_stand_before_or_after_the_command() {
    let table = Table::with("COMPLETED", LATE, EARLY).await;
    for line in [
        "--json --table idempotency get $KEY",
        "--table idempotency get --json $KEY",
        "get $KEY --table idempotency --json",
    ] {
        let mut command = command(line);
        command.envs(table.environment());
        assert_eq!(finish(command, "").json(0)["state"], "completed", "{line}");
    }
    for line in [
        "table template --format json --table shop",
        "--table shop table template --format json",
    ] {
        let resources = &run(line).json(0)["Resources"]["IdempotencyTable"];
        assert_eq!(resources["Properties"]["TableName"], "shop");
    }
    let of_the_function = run("--json --table shop key").json(2)["error"].to_string();
    assert!(
        of_the_function.contains("reads no table"),
        "{of_the_function}"
    );
    run("get $KEY --region eu-west-1").fails(2, "tip: set AWS_REGION instead");
}
