//! Values that a call cannot run.

use aws_lambda_events::sqs::SqsEvent;
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{BoxError, Deadline, LambdaEvent, Operation};

fn a_future(charge: &Operation) {
    let _call = charge.run(&1, Deadline::Inherited, async { Ok::<u8, BoxError>(1) });
}

fn another_parameter(charge: &Operation) {
    let _call = charge.run(&1, Deadline::Inherited, |call: u8| async move { Ok::<u8, BoxError>(call) });
}

fn no_future(charge: &Operation) {
    let _call = charge.run(&1, Deadline::Inherited, || Ok::<u8, BoxError>(1));
}

fn a_parameter_without_its_type(charge: &Operation) {
    let _call = charge.run(&1, Deadline::Inherited, |call| async move { Ok::<_, BoxError>(call.which_run() as u8) });
}

fn another_second_parameter(charge: &Operation, event: LambdaEvent<SqsEvent>) {
    let _call = Batch::new(charge).run(event, |order: Vec<u8>, call: u8| async move { Ok::<_, BoxError>(call) });
}

fn main() {}
