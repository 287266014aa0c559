// Stands in for Lambda's runtime for Node: imports the handler, and gives it each event.

const path = require("node:path");

const api = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime`;
const [file, name] = process.env._HANDLER.split(".");
const handler = require(path.join(process.env.LAMBDA_TASK_ROOT, `${file}.cjs`))[name];

async function main() {
  for (;;) {
    const event = await fetch(`${api}/invocation/next`);
    const id = event.headers.get("lambda-runtime-aws-request-id");
    const deadline = Number(event.headers.get("lambda-runtime-deadline-ms"));
    const context = {
      awsRequestId: id,
      functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
      invokedFunctionArn: event.headers.get("lambda-runtime-invoked-function-arn"),
      getRemainingTimeInMillis: () => Math.max(0, deadline - Date.now()),
    };
    let end = "response";
    let result;
    try {
      result = await handler(await event.json(), context);
    } catch (error) {
      end = "error";
      result = { errorType: error.name, errorMessage: error.message };
    }
    const sent = await fetch(`${api}/invocation/${id}/${end}`, { method: "POST", body: JSON.stringify(result ?? null) });
    await sent.text();
  }
}

main();
