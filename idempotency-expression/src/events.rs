//! The types of events that are not the body of a record.

/// The types of `aws_lambda_events` that are a whole event, or a record of SQS or Kinesis as the event has it. Most of their fields
/// are optional, so each JSON object is one of them with empty fields: a function of one record that takes one would acknowledge
/// messages that it has not read.
const EVENT_TYPES: [&str; 15] = [
    "SqsEvent",
    "SqsEventObj",
    "SqsMessage",
    "SqsMessageObj",
    "SqsBatchResponse",
    "KinesisEvent",
    "KinesisEventRecord",
    "KinesisRecord",
    "KinesisTimeWindowEvent",
    "KinesisFirehoseEvent",
    "ApiGatewayProxyRequest",
    "ApiGatewayV2httpRequest",
    "ApiGatewayWebsocketProxyRequest",
    "AlbTargetGroupRequest",
    "LambdaFunctionUrlRequest",
];

/// Returns true if a type with this path, such as `["sqs", "SqsMessage"]`, is the type of an event or its record by name.
pub fn is_event_type(path: &[&str]) -> bool {
    match path {
        // The event of a DynamoDB stream has a name that a program's own type can have.
        [.., "dynamodb", "Event" | "TimeWindowEvent"] => true,
        [.., name] => EVENT_TYPES.contains(name),
        [] => false,
    }
}

/// Returns the name of such a type of `aws_lambda_events` in what `std::any::type_name` returns, also inside of generic types.
pub fn event_type_in(type_name: &str) -> Option<&str> {
    let paths = type_name.split(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
    let of_events = paths.filter(|path| path.starts_with("aws_lambda_events::"));
    of_events
        .map(|path| path.split("::").collect::<Vec<_>>())
        .find(|path| is_event_type(path))?
        .pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_type_is_found_in_the_name_of_each_type_that_holds_it() {
        for (name, expected) in [
            (
                "aws_lambda_events::event::sqs::SqsMessage",
                Some("SqsMessage"),
            ),
            (
                "alloc::vec::Vec<aws_lambda_events::event::sqs::SqsMessage>",
                Some("SqsMessage"),
            ),
            (
                "(u8, core::option::Option<aws_lambda_events::event::sqs::SqsMessageObj<u8>>)",
                Some("SqsMessageObj"),
            ),
            (
                "&aws_lambda_events::event::kinesis::event::KinesisEventRecord",
                Some("KinesisEventRecord"),
            ),
            ("aws_lambda_events::event::dynamodb::Event", Some("Event")),
            ("aws_lambda_events::event::dynamodb::EventRecord", None),
            ("aws_lambda_events::event::s3::S3Event", None),
            ("aws_lambda_events::event::sns::SnsMessage", None),
            ("shop::sqs::SqsMessage", None),
            ("shop::Order", None),
        ] {
            assert_eq!(event_type_in(name), expected, "{name}");
        }
        assert!(!is_event_type(&["Event"]) && !is_event_type(&[]));
    }
}
