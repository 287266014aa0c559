"""Cold starts and calls of each function, architecture and memory size, by what Lambda itself reports."""

import concurrent.futures
import statistics

import stack
from functions import invoke, percentile
from state import Stop

COLD = ("Init Duration", "Duration", "Billed Duration", "Max Memory Used")
CALL = ("Duration", "Billed Duration")


def run(world):
    """Measures the cells that have not been measured yet. Each is kept as soon as it is done."""
    phase = world.state.phase("calls")
    done = phase.setdefault("cells", {})
    todo = [cell for cell in stack.cells(world.plan) if "-".join(map(str, cell)) not in done]
    # Neighbours in time are different functions of one size, so that an hour of the day favours none.
    with concurrent.futures.ThreadPoolExecutor(world.plan["parallel"]) as pool:
        running = {pool.submit(measure, world, *cell): "-".join(map(str, cell)) for cell in todo}
        try:
            for ended in concurrent.futures.as_completed(running):
                done[running[ended]] = ended.result()
                world.state.save()
                print(f"  {running[ended]}: {summary(done[running[ended]])}", flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return phase


def summary(cell):
    cold, fresh, duplicate = cell["cold"], cell["fresh"], cell["duplicate"]
    return (
        f"INIT {cold['Init Duration']['median']:.1f} ms, fresh {fresh['Duration']['median']:.2f} ms, "
        f"duplicate {duplicate['Duration']['median']:.2f} ms"
    )


def measure(world, contestant, architecture, memory):
    client = world.aws.client("lambda-invoke")
    function = world.names.function(contestant, architecture, memory)
    cold = [cold_start(world, client, function, number) for number in range(world.plan["cold_starts"])]
    fresh, duplicate = [], []
    for number in range(world.plan["calls"]):
        event = order(world, function, f"warm-{number}")
        first = charged(client, function, event)
        again = charged(client, function, event)
        if again.payload != first.payload:
            raise Stop(f"{function}: a duplicate got another response than the first call")
        # A sandbox that Lambda replaced is a cold start, and no call of this kind.
        fresh += [first.report] if "Init Duration" not in first.report else []
        duplicate += [again.report] if "Init Duration" not in again.report else []
    return {
        "cold": statistics_of(cold, COLD),
        "fresh": statistics_of(fresh, CALL),
        "duplicate": statistics_of(duplicate, CALL),
    }


def cold_start(world, client, function, number):
    """Starts the function anew, and returns the report of its first call. A changed variable makes Lambda replace the sandbox."""
    control = world.aws.client("lambda")
    variables = control.get_function_configuration(FunctionName=function)["Environment"]["Variables"]
    marker = f"{world.state.data['tries']}-{number}"
    control.update_function_configuration(FunctionName=function, Environment={"Variables": variables | {"REHEARSAL_START": marker}})
    control.get_waiter("function_updated_v2").wait(FunctionName=function, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
    called = charged(client, function, order(world, function, f"cold-{marker}"))
    if "Init Duration" not in called.report:
        raise Stop(f"{function}: Lambda reported no INIT after a changed variable")
    return called.report


def order(world, function, name):
    """Returns an event. The try is in its key, so that a resumed measurement has fresh keys."""
    return {
        "user_id": f"{function}-{world.state.data['tries']}",
        "order_id": name,
        "amount": 4200,
        "currency": "EUR",
        "receipt_bytes": 200,
        "items": [],
    }


def charged(client, function, event):
    called = invoke(client, function, event)
    if called.failed:
        raise Stop(f"{function}: a call ended in {called.error}")
    if not called.payload["payment_id"].startswith(f"pay-{event['order_id']}-") or called.payload["amount"] != event["amount"]:
        raise Stop(f"{function}: a call got the response of another order")
    if "Duration" not in called.report:
        raise Stop(f"{function}: the log of a call has no REPORT")
    return called


def statistics_of(reports, members):
    return {
        member: {
            "median": statistics.median(values),
            "p99": percentile(values, 99),
            "samples": len(values),
        }
        for member in members
        if (values := [report[member] for report in reports if member in report])
    }
