//! Checks of `#[idempotent(sqs, ..)]`, `kinesis` and `dynamodb_stream`: the settings, and the record.

use syn::{Error, FnArg, Signature, Type};

use super::{PayloadSource, type_name};
use crate::arguments::{Arguments, Setting, Shape, Source, of_batch};

/// Returns the errors of settings that do not fit a batch, and of a batch's settings on another function.
pub(super) fn wrong_settings(arguments: &Arguments) -> Vec<Error> {
    let shaped = arguments.shape.as_ref();
    let batch = shaped.and_then(|shaped| match shaped.shape {
        Shape::Batch(source) => Some((shaped.shape.word(), source)),
        Shape::Http => None,
    });
    let Some((word, source)) = batch else {
        return of_another_shape(arguments);
    };
    let not_here = [
        (
            "payload",
            "the payload is the body of a record; `key_from = \"record\"` shows the whole record to the key",
        ),
        ("context", "the event has its own context"),
        ("on_replay", "a batch returns no responses"),
    ];
    let mut errors: Vec<_> = not_here
        .into_iter()
        .filter_map(|(name, why)| {
            let message = format!("with `{word}` leave `{name}` out: {why}");
            Some(Error::new(named(arguments, name)?.name.span(), message))
        })
        .collect();
    if !arguments.names("key") {
        let needs_key = [
            (
                "validate",
                "without a `key` the key is the record's own id, which always has the same body",
            ),
            ("key_from", "without a `key` the key is the record's own id"),
        ];
        errors.extend(needs_key.into_iter().filter_map(|(name, why)| {
            let message = format!("`{name}` needs a `key`: {why}");
            Some(Error::new(named(arguments, name)?.name.span(), message))
        }));
    }
    if source == Source::Sqs
        && let Some(order) = named(arguments, "order")
    {
        errors.push(Error::new(
            order.name.span(),
            "leave `order` out: the messages of a FIFO queue keep the order of their group, and others have none",
        ));
    }
    errors
}

/// Returns the errors of settings of a batch on a function that has no batch.
fn of_another_shape(arguments: &Arguments) -> Vec<Error> {
    let settings = of_batch().filter_map(|name| named(arguments, name));
    settings
        .map(|setting| {
            let name = &setting.name;
            Error::new(
                name.span(),
                format!("`{name}` is a setting of batches: write `#[idempotent(sqs, {name} = ..)]`, `kinesis` or `dynamodb_stream`"),
            )
        })
        .collect()
}

fn named<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a Setting> {
    arguments.all.iter().find(|setting| setting.name == name)
}

/// Takes the last parameter as the record.
pub(super) fn record(signature: &mut Signature, source: Source) -> syn::Result<PayloadSource> {
    let record = match source {
        Source::Sqs => "`order: Order` for the body, or `message: Message<Order>`",
        Source::Kinesis => "`entry: Entry` for the data, or `data: DataRecord<Entry>`",
        Source::DynamoDbStream => "`change: ItemChange<Item>`",
    };
    let Some(FnArg::Typed(last)) = signature.inputs.last() else {
        return Err(Error::new(
            signature.ident.span(),
            format!("the last parameter is one record of the batch: write {record}"),
        ));
    };
    if let Type::Reference(reference) = &*last.ty {
        return Err(Error::new_spanned(
            reference,
            format!("the last parameter is one record of the batch, by value: write {record}"),
        ));
    }
    if type_name(&last.ty).is_some_and(|name| name == "LambdaEvent") {
        return Err(Error::new_spanned(
            &last.ty,
            format!(
                "this function handles one record, and the attribute makes the handler of the event: write {record}"
            ),
        ));
    }
    Ok(PayloadSource::Record {
        pattern: last.pat.clone(),
        of: last.ty.clone(),
    })
}
