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
  default = "idempotency"
}

variable "functions" {
  type = map(list(string))
  default = {
    Payment = ["payments#*"]
  }
  description = "The ids of the records of each function's operations: PREFIX#* for each key_prefix. On a table with a sort key the value of the partition key. An empty list stands for all records."
}

variable "kms_key_arn" {
  type        = string
  default     = null
  description = "The ARN of a key of your own. Each policy allows kms:Decrypt on it, which the key's policy must leave to IAM. Null for the key of AWS."
}

variable "metrics_namespace" {
  type        = string
  default     = "Payments"
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
  hash_key     = "id"

  # If the table were deleted, every stored response would be lost, and each late duplicate would run again.
  deletion_protection_enabled = true

  attribute {
    name = "id"
    type = "S"
  }

  # TTL only cleans up, sometimes days late. The functions themselves check whether a record has expired, to the second.
  ttl {
    attribute_name = "expiration"
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
    actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]
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

  # A start only reads this id.
  dynamic "statement" {
    for_each = length(each.value) > 0 ? [1] : []

    content {
      actions   = ["dynamodb:GetItem"]
      resources = [aws_dynamodb_table.idempotency.arn]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values   = ["#warm-up"]
      }
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

    content {
      actions   = ["kms:Decrypt"]
      resources = [statement.value]

      condition {
        test     = "StringLike"
        variable = "kms:ViaService"
        values   = ["dynamodb.*"]
      }
    }
  }
}

resource "aws_iam_policy" "records" {
  for_each = var.functions

  name_prefix = "${each.key}Records"
  description = "Read and write idempotency records."
  policy      = data.aws_iam_policy_document.records[each.key].json
}

# What an operator, who uses the command `idempotency`, may do with the table.
data "aws_iam_policy_document" "operator" {
  statement {
    actions   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:Scan", "dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive", "dynamodb:DescribeContinuousBackups"]
    resources = [aws_dynamodb_table.idempotency.arn]
  }

  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

    content {
      actions   = ["kms:Decrypt"]
      resources = [statement.value]

      condition {
        test     = "StringLike"
        variable = "kms:ViaService"
        values   = ["dynamodb.*"]
      }
    }
  }
}

resource "aws_iam_policy" "operator" {
  name_prefix = "OperatorRecords"
  description = "Show, list, resolve and evict idempotency records, and check the table."
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
    CompletionUnknown = {
      metric = "CompletionUnknown"
      text   = "A handler ran, and whether its response is stored is unknown. The key may run again."
    }
    LostOwnership = {
      metric = "LostOwnership"
      text   = "A handler ran longer than its lease, and another run took over its key. The effect may have happened twice."
    }
    HeldKeys = {
      metric = "Held"
      text   = "A key is held after a run without a result, and waits for an operator."
    }
    StoreFailed = {
      metric = "StoreFailed"
      text   = "Calls are refused because the table cannot be reached or does not accept requests."
    }
    Unprotected = {
      metric = "Unprotected"
      text   = "A handler ran without a confirmed claim, because the table failed. A retry may run it again."
    }
  }
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

  alarm_name          = "${var.table_name}-TableThrottled"
  alarm_description   = "DynamoDB throttles requests to the table of idempotency records. See docs/guide/operating.md."
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
