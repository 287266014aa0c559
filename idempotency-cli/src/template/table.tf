# The table of idempotency records, what functions may do with it, and alarms.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "table_name" {
  type    = string
  default = @table_name@
}

variable "functions" {
  type = map(list(string))
  default = @functions@
  description = "The ids of the records of each function's operations: PREFIX#* for each key_prefix. On a table with a sort key the value of the partition key. An empty list stands for all records."
}

variable "kms_key_arn" {
  type        = string
  default     = @kms_key@
  description = "The ARN of a key of your own. Each policy allows kms:Decrypt on it, which the key's policy must leave to IAM. Null for the key of AWS."
}

variable "metrics_namespace" {
  type        = string
  default     = @namespace@
  description = "The namespace of the functions' metrics. Null for no alarms. Give each stack in one account and region its own."
}

variable "alarm_email" {
  type        = string
  default     = null
  description = "Address that gets a mail for each alarm, after it has confirmed the subscription. Null for no mail."
}

resource "aws_dynamodb_table" "idempotency" {
  name         = var.table_name
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = @partition_key@
@range_key@
  # If the table were deleted, every stored response would be lost, and each late duplicate would run again.
  deletion_protection_enabled = true

  attribute {
    name = @partition_key@
    type = "S"
  }
@sort_key@
  # TTL only cleans up, sometimes days late. The functions themselves check whether a record has expired, to the second.
  ttl {
    attribute_name = @expiration@
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  # Records hold the handlers' responses.
  server_side_encryption {
    enabled     = true
    kms_key_arn = var.kms_key_arn
  }

  lifecycle {
    prevent_destroy = true
  }
}

# What a function may do with the table. This is all that the framework needs. (`store_event` also needs dynamodb:DescribeTable.)
data "aws_iam_policy_document" "records" {
  for_each = var.functions

  statement {
    actions   = [@actions@]
    resources = [aws_dynamodb_table.idempotency.arn]

    dynamic "condition" {
      for_each = length(each.value) > 0 ? [each.value] : []

      content {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values   = condition.value
      }
    }
  }
@warm_up@@decrypt@}

resource "aws_iam_policy" "records" {
  for_each = var.functions

  name_prefix = "${each.key}Records"
  description = @for_function@
  policy      = data.aws_iam_policy_document.records[each.key].json
}

# What an operator, who uses the command `idempotency`, may do with the table.
data "aws_iam_policy_document" "operator" {
  statement {
    actions   = [@operator_actions@]
    resources = [aws_dynamodb_table.idempotency.arn]
  }
@decrypt@}

resource "aws_iam_policy" "operator" {
  name_prefix = "@operator@Records"
  description = @for_operator@
  policy      = data.aws_iam_policy_document.operator.json
}

resource "aws_sns_topic" "alarms" {
  count = var.alarm_email == null ? 0 : 1

  name_prefix = "idempotency-alarms"
}

resource "aws_sns_topic_subscription" "alarms" {
  count = var.alarm_email == null ? 0 : 1

  topic_arn = aws_sns_topic.alarms[0].arn
  protocol  = "email"
  endpoint  = var.alarm_email
}

locals {
  call_alarms = {
@call_alarms@  }
}

# A metric is sent only when it happens. So missing data is the good case, and one minute with data is enough. Five minutes are
# evaluated because metrics from a log can arrive some minutes late. `Function` and `Operation` are words of the query language, so
# they are quoted.
resource "aws_cloudwatch_metric_alarm" "calls" {
  for_each = var.metrics_namespace == null ? {} : local.call_alarms

  alarm_name          = "${var.table_name}-${each.key}"
  alarm_description   = "${each.value.text} See docs/guide/operating.md."
  alarm_actions       = aws_sns_topic.alarms[*].arn
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 5
  datapoints_to_alarm = 1
  treat_missing_data  = "notBreaching"

  metric_query {
    id          = "calls"
    expression  = "SELECT SUM(${each.value.metric}) FROM SCHEMA(${var.metrics_namespace}, \"Function\", \"Operation\") GROUP BY \"Function\", \"Operation\" ORDER BY SUM() DESC"
    period      = 60
    return_data = true
  }
}

resource "aws_cloudwatch_metric_alarm" "throttled" {
  count = var.metrics_namespace == null ? 0 : 1

  alarm_name          = "${var.table_name}-@throttled_name@"
  alarm_description   = @throttled_text@
  alarm_actions       = aws_sns_topic.alarms[*].arn
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 5
  datapoints_to_alarm = 3
  treat_missing_data  = "notBreaching"

  # FILL, because a sum with a metric that is missing would be missing.
  metric_query {
    id          = "throttled"
    expression  = "FILL(writes, 0) + FILL(reads, 0)"
    label       = "throttled requests"
    return_data = true
  }

  metric_query {
    id = "writes"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = aws_dynamodb_table.idempotency.name
      }
    }
  }

  metric_query {
    id = "reads"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = aws_dynamodb_table.idempotency.name
      }
    }
  }
}

output "idempotency_table_name" {
  value       = aws_dynamodb_table.idempotency.name
  description = "The value of IDEMPOTENCY_TABLE."
}

output "records_policy_arns" {
  value       = { for name, policy in aws_iam_policy.records : name => policy.arn }
  description = "The policy of each function, for its role."
}

output "operator_policy_arn" {
  value       = aws_iam_policy.operator.arn
  description = "The policy of an operator."
}
