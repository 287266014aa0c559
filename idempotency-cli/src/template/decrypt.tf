
  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

    content {
      actions   = [@decrypt_action@]
      resources = [statement.value]

      condition {
        test     = @test@
        variable = @variable@
        values   = [@value@]
      }
    }
  }
