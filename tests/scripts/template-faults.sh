#!/usr/bin/env bash
# Changes one line of template.yaml at a time, and checks that template.py finds the fault.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/tools.sh

changed=$(mktemp)
trap 'rm -f "$changed"' EXIT
missed=0 count=0
while IFS= read -r change; do
    count=$((count + 1))
    sed -E "$change" template.yaml >"$changed"
    if cmp -s template.yaml "$changed"; then
        echo "template-faults.sh: this changes nothing: $change"
        missed=$((missed + 1))
    # 2 is a fault of the template. Another code is a fault of the script.
    elif "$tools_root/python/bin/python3" tests/scripts/template.py "$changed" >/dev/null || (($? != 2)); then
        echo "template-faults.sh: not found: $change"
        missed=$((missed + 1))
    fi
done <<'CHANGES'
s/MetricName=\\"Replayed\\"/MetricName=\\"Replaid\\"/
s/SELECT SUM\(Held\)/SELECT SUM\(Helt\)/
s/IDEMPOTENCY_EXPIRES_AFTER: 19d/IDEMPOTENCY_EXPIRES_AFTR: 19d/
s/IDEMPOTENCY_EXPIRES_AFTER: 19d/IDEMPOTENCY_EXPIRES_AFTER: 5d/
s/IDEMPOTENCY_EXPIRES_AFTER: 2d/IDEMPOTENCY_EXPIRES_AFTER: 1h/
s/VisibilityTimeout: 60/VisibilityTimeout: 30/
s/MaximumConcurrency: 10/MinimumConcurrency: 10/
s/^ +FunctionResponseTypes.*//
s/BisectBatchOnFunctionError: true/BisectBatchOnFunctionError: false/
s/MaximumRecordAgeInSeconds: 14400/MaximumRecordAgeInSeconds: 90000/
s/MaximumRetryAttempts: 10/MaximumRetryAttempts: -1/
s/CodeUri: examples\/http/CodeUri: examples\/htp/
s/Binary: http-api/Binary: http/
s/Role: !GetAtt LedgerRole.Arn/Tracing: Active/
s/Resource: !GetAtt OrderQueue.Arn/Resource: "*"/
s/sqs:ReceiveMessage/sqs:*/
s/^    +TreatMissingData: notBreaching//
s/"view": "singleValue"/"view": "single"/
s/"stacked": true/"staked": true/
s/"x": 12, "y": 7/"x": 11, "y": 7/
s/"x": 16, "y": 31, "width": 8/"x": 16, "y": 31, "width": 9/
s/\$\{HeldKeysAlarm.Arn\}/${HeldAlarm.Arn}/
s/Value: !GetAtt ShippingDeadLetters.QueueName/Value: !GetAtt OrderDeadLetters.QueueName/
s/MetricName: IteratorAge/MetricName: Duration/
s/IdempotencyExamples,Function,Operation/Other,Function,Operation/
s/SCHEMA\(IdempotencyExamples, "Function", "Operation"\)/SCHEMA\(IdempotencyExamples, "Function"\)/
s/SCHEMA\(IdempotencyExamples, "Function", "Operation"\) GROUP BY "Function", "Operation"/SCHEMA\(IdempotencyExamples, Function, Operation\) GROUP BY Function, Operation/
s/\["payment#\*"\]/["*"]/
s/\["refunds#\*"\]/["refunds#*", "#warm-up"]/
s/\["orders.reserve#\*"/["orders#*"/
s/\["#warm-up"\]/["#warm"]/
s/ForAllValues:StringLike/ForAllValues:StringEquals/
s/^ +- dynamodb:DeleteItem//
s/DeletionProtectionEnabled: true/DeletionProtectionEnabled: false/
s/DeletionPolicy: Retain/DeletionPolicy: Delete/
s/DatapointsToAlarm: 1$/DatapointsToAlarm: 3/
s/Timeout: 10$/Timeout: 40/
s/ +DeadLetterConfig:/            RetryPolicy:/
s/^      DeadLetterQueue:/      Other:/
s/MetricName: ReadThrottleEvents/MetricName: UserErrors/
s/MetricName=\\"Rejected\\"/MetricName=\\"Refused\\"/
s/unprotected, refused/refused/
s/"title": "Source of replays"/"title": "Replays"/
s/claims `iss` and `sub`/claim `sub`/
CHANGES
echo "$count changes, $missed not found"
exit $((missed > 0))
