//! Phase 3: generates the code. All decisions were made in the phases before.
//!
//! Names are hygienic (`mixed_site`), so that a user's variable never collides with a generated one. Hygiene does not apply to constants and
//! statics: if the user has a constant `X`, a generated `let X` would be a pattern. So generated names begin with `__`. Each requirement
//! on one of the user's types is a call of its own with the span of that type: so one mistake is one error, at the user's own words. The
//! body's tokens follow `if false { return .. }`, which gives the body its type without a block around it.

mod batch;
mod operation;
mod payload;
mod types;

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use crate::arguments::Shape;
use crate::parse::Function;
use crate::validate::ValidatedFn;
use types::SpanRange;

/// Returns the protected function.
pub(crate) fn expand(function: &Function, validated: &ValidatedFn) -> TokenStream {
    if let Some(handler) = batch::handler(function, validated) {
        return handler;
    }
    let site = Span::mixed_site();
    let Function {
        attributes,
        visibility,
        body,
        ..
    } = function;
    let ValidatedFn {
        signature,
        shape,
        returned,
        ..
    } = validated;
    let private = validated.runtime.private(site);
    let operation = operation::operation(function, validated);
    let runtime = &validated.runtime;
    let payload::IdentityCode {
        before,
        identified,
        destructure,
    } = payload::identified(&validated.payload, *shape, runtime);
    let types::Witnesses {
        codec,
        convert,
        never,
    } = types::witnesses(returned, *shape, runtime);
    let is_http = *shape == Some(Shape::Http);
    let types::CallCode {
        before: supplied,
        name: call,
        binding,
    } = types::supplied(validated);
    let store = store(validated);
    let convert = convert.map(|convert| quote_spanned!(site=> let __convert = #convert;));
    let (run, arguments, result) = if is_http {
        (
            quote_spanned!(site=> run_http),
            quote_spanned!(site=> __operation, __identified, __store, __codec),
            quote_spanned!(site=> __result),
        )
    } else {
        let response = response(validated);
        (
            quote_spanned!(site=> run),
            quote_spanned!(site=> __identified, __codec, __convert),
            quote_spanned! {site=>
                match __result {
                    ::core::result::Result::Ok(__outcome) => ::core::result::Result::Ok(#response),
                    ::core::result::Result::Err(__error) => ::core::result::Result::Err(__error),
                }
            },
        )
    };
    quote_spanned! {site=>
        #(#attributes)*
        #visibility #signature {
            let __operation = #operation;
            #before
            let __store = #store;
            let __identified = #identified;
            let __codec = #codec;
            #convert
            #supplied
            let __result = #private::#run(
                #arguments,
                move |#call: #private::Call| async move {
                    if false {
                        return #never;
                    }
                    #binding
                    #destructure
                    #body
                },
            )
            .await;
            #result
        }
    }
}

/// Returns the operation's own store as an `Option`.
fn store(validated: &ValidatedFn) -> TokenStream {
    match &validated.store {
        Some(store) => {
            let head = SpanRange::of(store).head(&validated.runtime, "store");
            quote_spanned!(Span::mixed_site()=> ::core::option::Option::Some(#head(#store)))
        }
        None => quote_spanned!(Span::mixed_site()=> ::core::option::Option::None),
    }
}

/// Returns the response of the outcome, after the hook.
fn response(validated: &ValidatedFn) -> TokenStream {
    let hook = validated
        .on_replay
        .as_ref()
        .map(|hook| quote_spanned!(Span::mixed_site()=> .on_replay(#hook)));
    quote_spanned!(Span::mixed_site()=> __outcome #hook.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases_tests::{cases, validated};

    fn expanded(arguments: &str, item: &str) -> String {
        let (function, validated) = validated(arguments, item).ok().unwrap();
        let code = expand(&function, &validated).to_string();
        code.replace(":: core :: option :: Option :: ", "")
            .replace(":: idempotency_lambda :: __private", "__private")
    }

    #[test]
    fn each_function_has_the_code_of_its_settings() {
        for case in cases(include_str!("expanded.txt")) {
            let code = expanded(case.arguments, case.item);
            for part in case.expected {
                assert!(code.contains(part), "{}: no {part} in {code}", case.line);
            }
            assert_eq!(
                code.contains("with_http"),
                case.arguments.starts_with("http")
            );
            let runtime = code.contains("facade");
            assert!(!runtime || !code.contains("idempotency_lambda"), "{code}");
        }
    }
}
