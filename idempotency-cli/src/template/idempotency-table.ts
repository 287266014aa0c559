// The table of idempotency records, what functions may do with it, and alarms: a construct for CDK. Copy it into an app, or deploy
// the stack at its end.

import { CfnOutput, RemovalPolicy, Stack, type StackProps } from "aws-cdk-lib";
import { CfnAlarm } from "aws-cdk-lib/aws-cloudwatch";
import { AttributeType, BillingMode, Table, TableEncryption } from "aws-cdk-lib/aws-dynamodb";
import { ManagedPolicy, PolicyStatement } from "aws-cdk-lib/aws-iam";
import { Key } from "aws-cdk-lib/aws-kms";
import { CfnTopic } from "aws-cdk-lib/aws-sns";
import { Construct } from "constructs";

export interface IdempotencyTableProps {
  /** CloudFormation chooses the name if there is none. */
  readonly tableName?: string;
  /** The ARN of a key of your own. Each policy allows kms:Decrypt on it, which the key's policy must leave to IAM. */
  readonly kmsKeyArn?: string;
  readonly alarms?: {
    /** The namespace of the functions' metrics. Give each stack in one account and region its own. */
    readonly namespace: string;
    /** Gets a mail for each alarm, after it has confirmed the subscription. */
    readonly email?: string;
  };
}

export class IdempotencyTable extends Construct {
  /** Set the functions' IDEMPOTENCY_TABLE to its name. */
  readonly table: Table;

  constructor(scope: Construct, id: string, props: IdempotencyTableProps = {}) {
    super(scope, id);
    this.table = new Table(this, "Table", {
      tableName: props.tableName,
      partitionKey: { name: "id", type: AttributeType.STRING },
      billingMode: BillingMode.PAY_PER_REQUEST,
      // TTL only cleans up, sometimes days late. The functions themselves check whether a record has expired, to the second.
      timeToLiveAttribute: "expiration",
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      // Records hold the handlers' responses.
      encryption: props.kmsKeyArn ? TableEncryption.CUSTOMER_MANAGED : TableEncryption.AWS_MANAGED,
      encryptionKey: props.kmsKeyArn ? Key.fromKeyArn(this, "Key", props.kmsKeyArn) : undefined,
      // If the table were deleted, every stored response would be lost, and each late duplicate would run again.
      removalPolicy: RemovalPolicy.RETAIN,
      deletionProtection: true,
    });
    if (props.alarms) {
      this.addAlarms(props.alarms.namespace, props.alarms.email);
    }
  }

  /**
   * Returns the permissions of a function: `records("Payment", "payments#*").attachToRole(role)`. This is all that the framework
   * needs. (`store_event` also needs dynamodb:DescribeTable.) Without keys the function reaches all records.
   *
   * @param leadingKeys The ids of the records of the function's operations: `PREFIX#*` for each `key_prefix`. On a table with a sort
   * key the value of the partition key.
   */
  records(function_: string, ...leadingKeys: string[]): ManagedPolicy {
    const statements = [this.allow(["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"], leadingKeys)];
    if (leadingKeys.length > 0) {
      // A start only reads this id.
      statements.push(this.allow(["dynamodb:GetItem"], ["#warm-up"]));
    }
    return this.policy(`${function_}Records`, "Read and write idempotency records.", statements);
  }

  /** Returns the permissions of an operator, who uses the command `idempotency`. */
  operatorRecords(): ManagedPolicy {
    return this.policy("OperatorRecords", "Show, list, resolve and evict idempotency records, and check the table.", [this.allow(["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:Scan", "dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive", "dynamodb:DescribeContinuousBackups"], [])]);
  }

  private policy(id: string, description: string, statements: PolicyStatement[]): ManagedPolicy {
    const key = this.table.encryptionKey;
    if (key) {
      const conditions = { "StringLike": { "kms:ViaService": ["dynamodb.*"] } };
      statements.push(new PolicyStatement({ actions: ["kms:Decrypt"], resources: [key.keyArn], conditions }));
    }
    return new ManagedPolicy(this, id, { description, statements });
  }

  private allow(actions: string[], keys: string[]): PolicyStatement {
    const conditions = { "ForAllValues:StringLike": { "dynamodb:LeadingKeys": keys } };
    return new PolicyStatement({ actions, resources: [this.table.tableArn], conditions: keys.length > 0 ? conditions : undefined });
  }

  // A metric is sent only when it happens. So missing data is the good case, and one minute with data is enough. Five minutes are
  // evaluated because metrics from a log can arrive some minutes late.
  private addAlarms(namespace: string, email?: string) {
    const topic = email ? new CfnTopic(this, "AlarmTopic", { subscription: [{ protocol: "email", endpoint: email }] }) : undefined;
    const alarm = (id: string, text: string, minutes: number, metrics: CfnAlarm.MetricDataQueryProperty[]) =>
      new CfnAlarm(this, id, {
        alarmDescription: `${text} See docs/guide/operating.md.`,
        alarmActions: topic ? [topic.ref] : undefined,
        comparisonOperator: "GreaterThanThreshold",
        threshold: 0,
        evaluationPeriods: 5,
        datapointsToAlarm: minutes,
        treatMissingData: "notBreaching",
        metrics,
      });
    // `Function` and `Operation` are words of the query language, so they are quoted.
    const by = '"Function", "Operation"';
    const calls: [string, string, string][] = [
      ["CompletionUnknownAlarm", "CompletionUnknown", "A handler ran, and whether its response is stored is unknown. The key may run again."],
      ["LostOwnershipAlarm", "LostOwnership", "A handler ran longer than its lease, and another run took over its key. The effect may have happened twice."],
      ["HeldKeysAlarm", "Held", "A key is held after a run without a result, and waits for an operator."],
      ["StoreFailedAlarm", "StoreFailed", "Calls are refused because the table cannot be reached or does not accept requests."],
      ["UnprotectedAlarm", "Unprotected", "A handler ran without a confirmed claim, because the table failed. A retry may run it again."],
    ];
    for (const [id, metric, text] of calls) {
      const expression = `SELECT SUM(${metric}) FROM SCHEMA(${namespace}, ${by}) GROUP BY ${by} ORDER BY SUM() DESC`;
      alarm(id, text, 1, [{ id: "calls", expression, period: 60 }]);
    }
    const dimensions = [{ name: "TableName", value: this.table.tableName }];
    const events = (id: string, metricName: string) => ({
      id,
      returnData: false,
      metricStat: { stat: "Sum", period: 60, metric: { namespace: "AWS/DynamoDB", metricName, dimensions } },
    });
    alarm("TableThrottledAlarm", "DynamoDB throttles requests to the table of idempotency records.", 3, [
      // FILL, because a sum with a metric that is missing would be missing.
      { id: "throttled", expression: "FILL(writes, 0) + FILL(reads, 0)", label: "throttled requests" },
      events("writes", "WriteThrottleEvents"),
      events("reads", "ReadThrottleEvents"),
    ]);
  }
}

export class IdempotencyStack extends Stack {
  constructor(scope: Construct, id: string, props?: StackProps & { readonly alarmEmail?: string }) {
    super(scope, id, props);
    const idempotency = new IdempotencyTable(this, "Idempotency", { alarms: { namespace: "Payments", email: props?.alarmEmail } });
    idempotency.records("Payment", "payments#*");
    idempotency.operatorRecords();
    new CfnOutput(this, "IdempotencyTableName", {
      description: "The value of IDEMPOTENCY_TABLE.",
      value: idempotency.table.tableName,
    });
  }
}
