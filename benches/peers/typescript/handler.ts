// The function of the benchmark with Powertools for AWS Lambda (TypeScript), as its documentation shows it.

import { IdempotencyConfig, makeIdempotent } from "@aws-lambda-powertools/idempotency";
import { DynamoDBPersistenceLayer } from "@aws-lambda-powertools/idempotency/dynamodb";

type Order = { user_id: string; order_id: string; amount: number; currency: string; receipt_bytes: number };
type Receipt = { payment_id: string; amount: number; currency: string; text: string };

const persistenceStore = new DynamoDBPersistenceLayer({ tableName: process.env.IDEMPOTENCY_TABLE ?? "" });
const config = new IdempotencyConfig({
  eventKeyJmesPath: "[user_id, order_id]",
  throwOnNoIdempotencyKey: true,
  payloadValidationJmesPath: "amount",
  expiresAfterSeconds: 3600,
});
let charges = 0;

// A wrapped handler takes the lease from the remaining time of its second argument, the context.
export const handler = makeIdempotent(async (event: Order) => charge(event), {
  persistenceStore,
  config,
  keyPrefix: "charge",
});

/** Does the work of the functions in Rust: `benches/orders`. */
function charge(order: Order): Receipt {
  if (order.amount === 0) {
    throw new Error("the amount is 0");
  }
  charges += 1;
  return {
    payment_id: `pay-${order.order_id}-${charges}`,
    amount: order.amount,
    currency: order.currency,
    text: text(order.receipt_bytes),
  };
}

const WORDS = ["paid", "order", "receipt", "amount", "total", "thank", "you", "delivery"];

function text(size: number): string {
  let text = "";
  let state = 1;
  while (text.length < size) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    text += `${WORDS[state >>> 29]} `;
  }
  return text.slice(0, size);
}
