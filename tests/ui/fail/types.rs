//! Types that a function cannot have: of its event, payload, response, error, context, hooks and constants.

fn main() {}

/// Constants of another type than the setting's.
mod constants {
    use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

    const WINDOW: u64 = 3_600;

    #[idempotent(expires_after = WINDOW)]
    async fn handler(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
        Ok(event.payload)
    }
}

/// A value of `context` that has no context.
mod context {
    use idempotency_lambda::{BoxError, idempotent};

    struct Job {
        order: u64,
    }

    #[idempotent(payload = job.order, context = job.order)]
    async fn work(job: Job) -> Result<u64, BoxError> {
        Ok(job.order)
    }
}

/// A parameter that is not an event.
mod event {
    use idempotency_lambda::{BoxError, idempotent};
    use serde::Serialize;

    #[derive(Serialize)]
    struct Order;

    #[idempotent]
    async fn handler(_order: Order) -> Result<u8, BoxError> {
        Ok(1)
    }
}

/// An error type that this framework's errors cannot be converted into.
mod failure {
    use idempotency_lambda::{LambdaEvent, idempotent};

    #[derive(Debug)]
    struct Declined;

    #[idempotent]
    async fn handler(_event: LambdaEvent<u8>) -> Result<u8, Declined> {
        Err(Declined)
    }
}

/// A hook with another signature.
mod hook {
    use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

    fn mark(response: u8) -> u8 {
        response
    }

    #[idempotent(on_replay = mark)]
    async fn hook(event: LambdaEvent<u8>) -> Result<u8, BoxError> {
        Ok(event.payload)
    }
}

/// Handlers of HTTP events: types that are no requests and no responses.
mod http_types {
    use aws_lambda_events::apigw::{ApiGatewayV2httpRequest, ApiGatewayV2httpResponse};
    use aws_lambda_events::sqs::SqsEvent;
    use idempotency_lambda::{BoxError, LambdaEvent, idempotent};

    #[idempotent(http, shared_by_all_callers)]
    async fn another_event(_: LambdaEvent<SqsEvent>) -> Result<ApiGatewayV2httpResponse, BoxError> {
        Ok(ApiGatewayV2httpResponse::default())
    }

    #[idempotent(http, shared_by_all_callers)]
    async fn no_event(_: ApiGatewayV2httpRequest) -> Result<ApiGatewayV2httpResponse, BoxError> {
        Ok(ApiGatewayV2httpResponse::default())
    }

    #[idempotent(http, shared_by_all_callers)]
    async fn another_response(_: LambdaEvent<ApiGatewayV2httpRequest>) -> Result<String, BoxError> {
        Ok(String::new())
    }
}

/// Payloads that cannot be serialised.
mod payload {
    use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Order;

    #[idempotent]
    async fn handler(_event: LambdaEvent<Order>) -> Result<u8, BoxError> {
        Ok(1)
    }

    #[idempotent(payload = order)]
    async fn function(order: &Order) -> Result<u8, BoxError> {
        let _ = order;
        Ok(1)
    }
}

/// Responses that cannot be read back.
mod response {
    use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
    use serde::Serialize;

    #[derive(Serialize)]
    struct Receipt;

    #[idempotent]
    async fn handler(_event: LambdaEvent<u8>) -> Result<Receipt, BoxError> {
        Ok(Receipt)
    }

    #[idempotent]
    async fn borrows(_event: LambdaEvent<u8>) -> Result<&'static str, BoxError> {
        Ok("paid")
    }

    mod http {
        pub struct StatusCode;
        pub struct Json<T>(pub T);
    }

    #[idempotent]
    async fn of_another_crate(
        _event: LambdaEvent<u8>,
    ) -> Result<(http::StatusCode, http::Json<u8>), BoxError> {
        Ok((http::StatusCode, http::Json(1)))
    }
}
