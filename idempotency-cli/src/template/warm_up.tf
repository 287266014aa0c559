
  # A start only reads this id.
  dynamic "statement" {
    for_each = length(each.value) > 0 ? [1] : []

    content {
      actions   = [@read@]
      resources = [aws_dynamodb_table.idempotency.arn]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values   = [@id@]
      }
    }
  }
