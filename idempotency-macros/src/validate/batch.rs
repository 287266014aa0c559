//! Checks of `#[idempotent(sqs, ..)]`, `kinesis` and `dynamodb_stream`: the settings, and the record.

use idempotency_expression::Scope;
use syn::{Error, FnArg, Signature, Type};

use super::{PayloadSource, event_type, type_name};
use crate::arguments::{Arguments, Shape, Source, names};

/// Returns the errors of settings that do not fit a batch, and of a batch's settings on another function.
pub(super) fn wrong_settings(arguments: &Arguments) -> Vec<Error> {
    let shape = arguments.shape.as_ref().map(|written| written.shape);
    let Some(shape @ Shape::Batch(source)) = shape else {
        return arguments.refused(names(Scope::Batch), |name| {
            format!("`{name}` is a setting of batches: write `#[idempotent(sqs, {name} = ..)]`, `kinesis` or `dynamodb_stream`")
        });
    };
    let word = shape.word();
    let mut errors = arguments.refused(["payload", "context", "on_replay"], |name| {
        let why = match name {
            "payload" => "the payload is the body of a record; `key_from = \"record\"` shows the whole record to the key",
            "context" => "the event has its own context",
            _ => "a batch returns no responses",
        };
        format!("with `{word}` leave `{name}` out: {why}")
    });
    if !arguments.names("key") {
        errors.extend(arguments.refused(["validate", "key_from"], |name| {
            let more = if name == "validate" {
                ", which always has the same body"
            } else {
                ""
            };
            format!("`{name}` needs a `key`: without a `key` the key is the record's own id{more}")
        }));
    }
    if source == Source::Sqs {
        errors.extend(arguments.refused(["order"], |name| {
            format!("leave `{name}` out: the messages of a FIFO queue keep the order of their group, and others have none")
        }));
    }
    errors
}

/// Takes the last parameter as the record.
pub(super) fn record(signature: &mut Signature, source: Source) -> syn::Result<PayloadSource> {
    let record = match source {
        Source::Sqs => "`order: Order` for the body, or `message: Message<Order>`",
        Source::Kinesis => "`entry: Entry` for the data, or `data: DataRecord<Entry>`",
        Source::DynamoDbStream => "`change: ItemChange<Item>`",
    };
    let Some(FnArg::Typed(last)) = signature.inputs.last() else {
        let message = format!("the last parameter is one record of the batch: write {record}");
        return Err(Error::new(signature.ident.span(), message));
    };
    let wrong = match &*last.ty {
        Type::Reference(_) => Some(
            "the last parameter is one record of the batch, by value".to_owned(),
        ),
        of if type_name(of).is_some_and(|name| name == "LambdaEvent") => Some(
            "this function handles one record, and the attribute makes the handler of the event"
                .to_owned(),
        ),
        of => event_type(of).map(|name| {
            format!(
                "`{name}` is the event or a record of it, and this parameter is the body of a record, which would be read as one with \
                 empty fields (give a type of your own with this name another one: `use .. as ..`)"
            )
        }),
    };
    if let Some(wrong) = wrong {
        return Err(Error::new_spanned(
            &last.ty,
            format!("{wrong}: write {record}"),
        ));
    }
    Ok(PayloadSource::Record {
        pattern: last.pat.clone(),
        of: last.ty.clone(),
    })
}
