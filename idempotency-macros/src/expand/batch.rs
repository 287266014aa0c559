//! The handler of a batch: the function's body becomes a closure over one record.
//!
//! The other parameters stay parameters of the handler. The closure borrows them, so that each record sees the same state.

use idempotency_expression::Scope;
use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::FnArg;

use super::types::{self, SpanRange};
use super::{operation, store};
use crate::arguments::{Shape, Source, names};
use crate::parse::Function;
use crate::validate::{PayloadSource, ValidatedFn};
use crate::values;

/// Returns the handler of the batch, or `None` if the function does not handle one record of a batch.
pub(super) fn handler(function: &Function, validated: &ValidatedFn) -> Option<TokenStream> {
    let (Some(Shape::Batch(source)), PayloadSource::Record { pattern, of }) =
        (validated.shape, &validated.payload)
    else {
        return None;
    };
    let site = Span::mixed_site();
    let runtime = &validated.runtime;
    let private = runtime.private(site);
    let source = match source {
        Source::Sqs => quote_spanned!(site=> #private::batch::SqsEvent),
        Source::Kinesis => quote_spanned!(site=> #private::batch::KinesisEvent),
        Source::DynamoDbStream => quote_spanned!(site=> #private::batch::DynamoDbEvent),
    };
    let mut signature = validated.signature.clone();
    let event = syn::Ident::new("__event", site);
    if let Some(FnArg::Typed(last)) = signature.inputs.last_mut() {
        last.attrs.clear();
        *last.pat = syn::parse_quote!(#event);
        *last.ty = syn::parse_quote!(#private::batch::LambdaEvent<#source>);
    }
    let failure = types::part(
        runtime,
        &validated.returned,
        &validated.returned.failure,
        "Failure",
    );
    signature.output = syn::parse_quote! {
        -> ::core::result::Result<<#source as #private::batch::Spec>::Response, #failure>
    };
    let types::Witnesses {
        codec,
        convert,
        never,
    } = types::witnesses(&validated.returned, validated.shape, runtime);
    let at = SpanRange::of(of);
    let head = at.head(runtime, "batch");
    let reader = quote_spanned!(at.end=> ::record::<#source, #of>());
    let types::CallCode {
        before: supplied,
        name: call,
        binding,
    } = types::supplied(validated);
    let settings = settings(validated);
    let operation = operation::operation(function, validated);
    let store = store(validated);
    let (attributes, visibility, body) =
        (&function.attributes, &function.visibility, &function.body);
    Some(quote_spanned! {site=>
        #(#attributes)*
        #visibility #signature {
            let __operation = #operation;
            let __batch = #private::batch::batch(__operation, #store);
            let __batch = __batch.map(|__batch| __batch #settings);
            let __reader = #head #reader;
            let __codec = #codec;
            let __convert = #convert;
            #supplied
            #private::batch::handle(
                __batch,
                #event,
                __reader,
                __codec,
                __convert,
                async |#pattern: #of, #call: #private::Call| {
                    if false {
                        return #never;
                    }
                    #binding
                    #body
                },
            )
            .await
        }
    })
}

/// Returns the calls that set the settings of the batch.
fn settings(validated: &ValidatedFn) -> TokenStream {
    let site = Span::mixed_site();
    let private = validated.runtime.private(site);
    let enums = quote_spanned!(site=> #private::batch);
    let calls = names(Scope::Batch).filter_map(|name| {
        let method = values::ident(name);
        let value = operation::setting(name, validated, &enums)?;
        Some(quote_spanned!(site=> .#method(#value)))
    });
    calls.collect()
}
