// Compares the templates in the folder of this script. tests/scripts/deploy.sh runs a copy of it beside them.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { App } from "aws-cdk-lib";
import hcl from "@cdktf/hcl2json";
import tools from "@cdktf/hcl-tools";
import YAML from "yaml";
import cdk from "./idempotency-table.js";

const EMAIL = "ana@example.com";
const read = (name) => fs.readFileSync(path.join(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), name), "utf8");

// ---- CloudFormation, with an address for the alarms

const TAGS = ["Ref", "GetAtt", "If", "Not", "Equals"].flatMap((name) => {
  const key = name === "Ref" ? name : `Fn::${name}`;
  const tag = `!${name}`;
  return [
    { tag, resolve: (text) => ({ [key]: name === "GetAtt" ? text.split(".") : text }) },
    { tag, collection: "seq", resolve: (list) => ({ [key]: list.toJSON() }) },
  ];
});

// Returns a value with its conditions decided and its parameters filled in.
function decided(value) {
  if (Array.isArray(value)) return value.map(decided);
  if (value === null || typeof value !== "object") return value;
  if ("Fn::If" in value) return decided(value["Fn::If"][1]);
  if (value.Ref === "AlarmEmail") return EMAIL;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, decided(each)]));
}

function resources(template) {
  const each = ([name, { Type, Properties, DeletionPolicy, UpdateReplacePolicy }]) => [name, { Type, Properties: decided(Properties), DeletionPolicy, UpdateReplacePolicy }];
  return Object.fromEntries(Object.entries(template.Resources).map(each));
}

// ---- CDK

function synthesised() {
  const app = new App({ analyticsReporting: false });
  new cdk.IdempotencyStack(app, "Stack", { alarmEmail: EMAIL });
  const { Resources, Outputs } = app.synth().getStackByName("Stack").template;
  // CDK puts the path of the construct before an id, and a hash after it.
  const short = (id) => id.replace(/^Idempotency/, "").replace(/[0-9A-F]{8}$/, "").replace(/^Table$/, "IdempotencyTable");
  let text = JSON.stringify({ Resources, Outputs });
  for (const id of Object.keys(Resources)) text = text.replaceAll(`"${id}"`, `"${short(id)}"`);
  const template = JSON.parse(text);
  assert.deepEqual(template.Outputs, JSON.parse(read("table.json")).Outputs, "the outputs of cdk differ from json");
  const found = resources(template);
  for (const each of Object.values(found)) {
    // The default of CloudFormation.
    if (each.Type === "AWS::IAM::ManagedPolicy") delete each.Properties.Path;
    for (const statement of each.Properties.PolicyDocument?.Statement ?? []) statement.Action = [statement.Action].flat();
  }
  return found;
}

// ---- Terraform, as CloudFormation would say it

async function terraform(text) {
  assert.equal(await tools.format(text), text, "table.tf is not formatted as `terraform fmt` does");
  const { resource, variable, locals, data } = await hcl.parse("table.tf", text);
  const [{ default: name }] = variable.table_name;
  const [{ default: namespace }] = variable.metrics_namespace;
  const [table] = resource.aws_dynamodb_table.idempotency;
  const [{ default: key }] = variable.kms_key_arn;
  const [encrypted] = table.server_side_encryption;
  assert.equal(encrypted.kms_key_arn, "${var.kms_key_arn}");
  const keys = [[table.hash_key, "HASH"], ...(table.range_key ? [[table.range_key, "RANGE"]] : [])];
  assert.deepEqual(table.lifecycle, [{ prevent_destroy: true }]);
  const found = {
    IdempotencyTable: {
      Type: "AWS::DynamoDB::Table",
      DeletionPolicy: "Retain",
      UpdateReplacePolicy: "Retain",
      Properties: {
        TableName: name,
        DeletionProtectionEnabled: table.deletion_protection_enabled,
        BillingMode: table.billing_mode,
        AttributeDefinitions: table.attribute.map(({ name, type }) => ({ AttributeName: name, AttributeType: type })),
        KeySchema: keys.map(([name, kind]) => ({ AttributeName: name, KeyType: kind })),
        TimeToLiveSpecification: { AttributeName: table.ttl[0].attribute_name, Enabled: table.ttl[0].enabled },
        PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: table.point_in_time_recovery[0].enabled },
        SSESpecification: { SSEEnabled: encrypted.enabled, ...(key && { SSEType: "KMS", KMSMasterKeyId: key }) },
      },
    },
  };
  const [{ statement: [own], dynamic }] = data.aws_iam_policy_document.records;
  const [policy] = resource.aws_iam_policy.records;
  const [{ content: [ofKeys] }] = own.dynamic.condition;
  for (const [name, leading] of Object.entries(variable.functions[0].default)) {
    const Statement = [statement(own, leading.length > 0 ? { ...ofKeys, values: leading } : undefined)];
    found[`${name}Records`] = managed(policy, [...Statement, ...optional(dynamic, leading, key)]);
  }
  const [operator] = resource.aws_iam_policy.operator;
  const [allowed] = data.aws_iam_policy_document.operator;
  found[operator.name_prefix] = managed(operator, [...allowed.statement.map((each) => statement(each)), ...optional(allowed.dynamic, [], key)]);
  if (namespace !== null) {
    const [mail] = resource.aws_sns_topic_subscription.alarms;
    assert.equal(mail.endpoint, "${var.alarm_email}");
    found.AlarmTopic = { Type: "AWS::SNS::Topic", Properties: { Subscription: [{ Protocol: mail.protocol, Endpoint: EMAIL }] } };
    const [calls] = resource.aws_cloudwatch_metric_alarm.calls;
    for (const [name, { metric, text }] of Object.entries(locals[0].call_alarms)) {
      const filled = { "${each.value.metric}": metric, "${each.value.text}": text, "${var.metrics_namespace}": namespace };
      found[`${name}Alarm`] = alarm(calls, filled);
    }
    found.TableThrottledAlarm = alarm(resource.aws_cloudwatch_metric_alarm.throttled[0], {});
  }
  return found;
}

function managed({ description }, Statement) {
  const Properties = { Description: description, PolicyDocument: { Version: "2012-10-17", Statement } };
  return { Type: "AWS::IAM::ManagedPolicy", Properties };
}

// Returns the statements that are there with leading keys, or with a key of one's own.
function optional(dynamic, leading, key) {
  const values = { "${length(each.value) > 0 ? [1] : []}": leading.slice(0, 1), "${var.kms_key_arn == null ? [] : [var.kms_key_arn]}": key ? [key] : [] };
  return dynamic.statement.flatMap(({ for_each, content: [content] }) => values[for_each].map((value) => statement(content, content.condition[0], value)));
}

function statement({ actions, resources: [resource] }, condition, value) {
  const named = { "${aws_dynamodb_table.idempotency.arn}": { "Fn::GetAtt": ["IdempotencyTable", "Arn"] }, "${statement.value}": value };
  const Condition = condition && { [condition.test]: { [condition.variable]: condition.values } };
  return { Effect: "Allow", Action: actions, Resource: named[resource], Condition };
}

function alarm(given, filled) {
  const fill = (text) => Object.entries(filled).reduce((text, [mark, value]) => text.replaceAll(mark, value), text);
  assert.equal(given.alarm_actions, "${aws_sns_topic.alarms[*].arn}");
  const query = ({ id, expression, label, period, return_data, metric }) => {
    // Without `return_data` Terraform sends false, and CloudFormation true.
    assert.equal(return_data === true, metric === undefined);
    if (metric === undefined) return { Id: id, Expression: fill(expression), ...(label && { Label: label }), ...(period && { Period: period }) };
    const [{ namespace, metric_name, stat, period: seconds, dimensions }] = metric;
    assert.deepEqual(dimensions, { TableName: "${aws_dynamodb_table.idempotency.name}" });
    const Metric = { Namespace: namespace, MetricName: metric_name, Dimensions: [{ Name: "TableName", Value: { Ref: "IdempotencyTable" } }] };
    return { Id: id, ReturnData: false, MetricStat: { Stat: stat, Period: seconds, Metric } };
  };
  return {
    Type: "AWS::CloudWatch::Alarm",
    Properties: {
      AlarmDescription: fill(given.alarm_description),
      AlarmActions: [{ Ref: "AlarmTopic" }],
      ComparisonOperator: given.comparison_operator,
      Threshold: given.threshold,
      EvaluationPeriods: given.evaluation_periods,
      DatapointsToAlarm: given.datapoints_to_alarm,
      TreatMissingData: given.treat_missing_data,
      Metrics: given.metric_query.map(query),
    },
  };
}

// Members without a value say nothing.
const plain = (value) => JSON.parse(JSON.stringify(value));
const same = (found, wanted, format) => assert.deepEqual(plain(found), plain(wanted), `${format} differs from json`);

const wanted = resources(JSON.parse(read("table.json")));
assert.ok(Object.keys(wanted).length >= 3);
same(resources(YAML.parse(read("table.yaml"), { customTags: TAGS })), wanted, "sam");
same(synthesised(), wanted, "cdk");
const named = structuredClone(wanted);
// Terraform needs a name.
named.IdempotencyTable.Properties.TableName ??= "idempotency";
same(await terraform(read("table.tf")), named, "terraform");
console.log(`sam, cdk, terraform and json agree on ${Object.keys(wanted).join(", ")}`);
