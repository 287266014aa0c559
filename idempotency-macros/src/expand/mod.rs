//! Phase 3: generates the code. All decisions were made in the phases before.
//!
//! Names are hygienic (`mixed_site`), so that a user's variable never collides with a generated one. Hygiene does not apply to constants and
//! statics, and a `let` of a name that a constant of the user has is a pattern of that constant: so generated names begin with `__`. Each requirement on one of the
//! user's types is a call of its own with the span of that type: so one mistake is one error, at the user's own words. The
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
    use crate::arguments::Arguments;
    use crate::validate::validate;

    fn expanded(arguments: &str, item: &str) -> String {
        let function = syn::parse_str(item).unwrap();
        let arguments = Arguments::parse(arguments.parse().unwrap());
        let validated = validate(&function, arguments).ok().unwrap();
        expand(&function, &validated).to_string()
    }

    const HANDLER: &str =
        "#[doc = \"x\"] pub async fn f(event: LambdaEvent<u8>) -> Result<u8, E> { body(event) }";

    #[test]
    fn the_attributes_the_signature_and_the_body_are_kept() {
        let code = expanded("", HANDLER);
        let signature =
            "# [doc = \"x\"] pub async fn f (event : LambdaEvent < u8 >) -> Result < u8 , E > {";
        assert!(code.starts_with(signature), "{code}");
        assert!(code.contains("if false {"), "{code}");
        assert!(code.contains("} body (event) }"), "{code}");
    }

    #[test]
    fn a_setting_that_is_not_written_is_none() {
        let code = expanded("lease = \"1500ms\", hash = \"md5\"", HANDLER);
        let private = ":: idempotency_lambda :: __private ::";
        for set in [
            format!(
                "lease : :: core :: option :: Option :: Some ({private} Duration :: new (1u64 , 500000000u32))"
            ),
            format!("hash : :: core :: option :: Option :: Some ({private} HashAlgorithm :: Md5)"),
        ] {
            assert!(code.contains(&set), "{code}");
        }
        assert!(
            code.contains("expires_after : :: core :: option :: Option :: None"),
            "{code}"
        );
    }

    #[test]
    fn the_name_of_a_constant_is_used_as_the_value() {
        let arguments =
            "expires_after = WINDOW, key = crate::keys::of_orders, on_timeout = OnTimeout::Hold";
        let code = expanded(arguments, HANDLER);
        let key =
            ":: idempotency_lambda :: __private :: Cow :: Borrowed (crate :: keys :: of_orders)";
        for (field, path) in [
            ("expires_after", "WINDOW"),
            ("key", key),
            ("on_timeout", "OnTimeout :: Hold"),
        ] {
            let set = format!("{field} : :: core :: option :: Option :: Some ({path})");
            assert!(code.contains(&set), "{code}");
        }
    }

    #[test]
    fn a_constant_for_key_required_may_be_a_bool() {
        let code = expanded("key_required = REQUIRED", HANDLER);
        let set = ":: idempotency_lambda :: __private :: Required (REQUIRED) . key_required ()";
        assert!(code.contains(set), "{code}");
    }

    #[test]
    fn the_runtime_is_found_at_the_path_in_the_attribute() {
        let code = expanded("crate = facade::lambda", HANDLER);
        assert!(
            code.contains("facade :: lambda :: __private :: run"),
            "{code}"
        );
        assert!(!code.contains("idempotency_lambda"), "{code}");
    }

    #[test]
    fn a_raw_name_stays_raw() {
        let code = expanded("", &HANDLER.replace("event:", "r#type:"));
        assert!(code.contains("& r#type"), "{code}");
    }

    #[test]
    fn a_pattern_is_matched_before_the_body() {
        let code = expanded(
            "",
            &HANDLER.replace("event:", "LambdaEvent { payload, .. }:"),
        );
        assert!(
            code.contains("let LambdaEvent { payload , .. } = __event ; body"),
            "{code}"
        );
    }

    #[test]
    fn the_hook_and_the_store_are_the_users_expressions() {
        let code = expanded("on_replay = |r, _| r, store = self::store()", HANDLER);
        assert!(
            code.contains(". on_replay (| r , _ | r) . into_response ()"),
            "{code}"
        );
        assert!(
            code.contains("__private :: store (self :: store ())"),
            "{code}"
        );
    }

    #[test]
    fn a_handler_of_http_events_has_functions_of_its_own() {
        let code = expanded("http, caller = \"a.b\", lease = \"1m\"", HANDLER);
        let private = ":: idempotency_lambda :: __private ::";
        for part in [
            "prepare_http (__operation , & event)",
            "http_response ::",
            "run_http (",
            "key_header : :: core :: option :: Option :: None",
            "shared_by_all_callers : :: core :: option :: Option :: None",
        ] {
            assert!(code.contains(part), "{part}: {code}");
        }
        let caller = format!(
            "caller : :: core :: option :: Option :: Some ({private} Cow :: Borrowed (\"a.b\"))"
        );
        assert!(code.contains(&caller), "{code}");
        assert!(!expanded("", HANDLER).contains("with_http"));
    }
}
