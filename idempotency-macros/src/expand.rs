//! Third phase: the code. No decision is left to make here.
//!
//! Names are hygienic (`mixed_site`), so that no name of the user's can meet one of ours. Each demand on one of the user's
//! types is made by one call, placed at that type: one mistake is one error, at the user's own word. The body's tokens
//! follow `if false { return .. }`, which gives them their type without a block around them.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};

use crate::arguments;
use crate::parameters::Parameters;
use crate::parse::Function;
use crate::runtime::Runtime;
use crate::validate::{ContextSource, PayloadSource, Returned, ValidatedFn};
use crate::values::{self, Constant};

/// The protected function.
pub(crate) fn expand(function: &Function, operation: &ValidatedFn) -> TokenStream {
    let site = Span::mixed_site();
    let Function {
        attributes,
        visibility,
        body,
        ..
    } = function;
    let ValidatedFn {
        signature,
        returned,
        ..
    } = operation;
    let private = operation.runtime.private(site);
    let statics = statics(function, operation);
    let runtime = &operation.runtime;
    let Prepared {
        before,
        prepared,
        destructure,
    } = prepared(&operation.payload, runtime);
    let codec = witness(
        runtime,
        "answer",
        &returned.response,
        part(runtime, returned, &returned.response, "Answer"),
    );
    let convert = witness(
        runtime,
        "failure",
        &returned.failure,
        part(runtime, returned, &returned.failure, "Failure"),
    );
    let never = never(runtime, returned);
    let store = store(operation);
    let answer = answer(operation);
    quote_spanned! {site=>
        #(#attributes)*
        #visibility #signature {
            let operation = #statics;
            #before
            let prepared = #prepared;
            let store = #store;
            let codec = #codec;
            let convert = #convert;
            let result = #private::run(
                operation,
                prepared,
                store,
                codec,
                convert,
                async move {
                    if false {
                        return #never;
                    }
                    #destructure
                    #body
                },
            )
            .await;
            match result {
                ::core::result::Result::Ok(outcome) => ::core::result::Result::Ok(#answer),
                ::core::result::Result::Err(error) => ::core::result::Result::Err(error),
            }
        }
    }
}

/// The operation, and its registration, in a block of their own. Statics know no hygiene, so their names are ones that no constant of
/// the user's has.
fn statics(function: &Function, operation: &ValidatedFn) -> TokenStream {
    let site = Span::mixed_site();
    let name = function.name();
    let private = operation.runtime.private(site);
    // Each field is written out, so that a new one cannot be forgotten here.
    let settings = arguments::constants().map(|name| {
        let field = values::field(name);
        let written = operation
            .constants
            .iter()
            .find(|(written, _)| written == name)
            .map(|(_, value)| constant(value, &private));
        let named = || {
            let mut paths = operation.paths.iter();
            let (_, path) = paths.find(|(written, _)| written == name)?;
            let at = SpanRange::of(path);
            Some(match name {
                // A `bool` or a `KeyRequired`.
                "key_required" => {
                    let required = at.head(&operation.runtime, "Required");
                    quote_spanned!(at.end=> #required(#path).key_required())
                }
                "key" | "validate" | "key_prefix" | "store_when" => {
                    let text = at.head(&operation.runtime, "Cow");
                    quote_spanned!(at.end=> #text::Borrowed(#path))
                }
                _ => path.to_token_stream(),
            })
        };
        let value = match written.or_else(named) {
            Some(value) => quote_spanned!(site=> ::core::option::Option::Some(#value)),
            None => quote_spanned!(site=> ::core::option::Option::None),
        };
        quote_spanned!(site=> #field: #value,)
    });
    let own_store = operation
        .store
        .is_some()
        .then(|| quote_spanned!(site=> .with_its_own_store()));
    quote_spanned! {site=>
        {
            static __IDEMPOTENT_OPERATION: #private::RegisteredOperation = #private::RegisteredOperation::new(
                ::core::concat!(::core::module_path!(), "::", #name),
                ::core::concat!(::core::file!(), ":", ::core::line!()),
                #private::Settings {
                    #(#settings)*
                },
            )#own_store;
            #[#private::linkme::distributed_slice(#private::OPERATIONS)]
            #[linkme(crate = #private::linkme)]
            static __IDEMPOTENT_REGISTERED: &'static #private::RegisteredOperation = &__IDEMPOTENT_OPERATION;
            &__IDEMPOTENT_OPERATION
        }
    }
}

fn constant(value: &Constant, private: &TokenStream) -> TokenStream {
    let site = Span::mixed_site();
    match value {
        Constant::Text(text) => quote_spanned!(site=> #private::Cow::Borrowed(#text)),
        Constant::Truth(truth) => quote_spanned!(site=> #truth),
        Constant::Number(number) => quote_spanned!(site=> #number),
        Constant::Time(time) => {
            let (seconds, nanoseconds) = (time.as_secs(), time.subsec_nanos());
            quote_spanned!(site=> #private::Duration::new(#seconds, #nanoseconds))
        }
        Constant::Choice(kind, variant) => {
            let (kind, variant) = (values::field(kind), values::field(variant));
            quote_spanned!(site=> #private::#kind::#variant)
        }
    }
}

/// How a call comes to its identity.
struct Prepared {
    /// What is found among the parameters, and their patterns.
    before: TokenStream,
    /// The identity's computation.
    prepared: TokenStream,
    /// What the body begins with.
    destructure: TokenStream,
}

fn prepared(payload: &PayloadSource, runtime: &Runtime) -> Prepared {
    match payload {
        PayloadSource::Event { name, pattern, of } => {
            let at = SpanRange::of(of);
            // Placed at the type, but still the parameter.
            let mut event = name.clone();
            event.set_span(at.end.resolved_at(name.span()));
            let (head, and) = (
                at.head(runtime, "prepare_event"),
                quote_spanned!(at.start.resolved_at(name.span())=> &),
            );
            let destructure = pattern
                .as_ref()
                .map(|pattern| quote_spanned!(Span::mixed_site()=> let #pattern = #name;));
            let call = quote_spanned!(at.end=> (operation, #and #event));
            Prepared {
                before: TokenStream::new(),
                prepared: quote_spanned!(at.start=> #head #call),
                destructure: destructure.into_token_stream(),
            }
        }
        PayloadSource::Value { value, context } => {
            let at = SpanRange::of(value);
            let head = at.head(runtime, "prepare_value");
            let call = quote_spanned!(at.end=> (operation, #value, found));
            Prepared {
                before: match context {
                    ContextSource::Named(named) => named_context(named, runtime),
                    ContextSource::Parameters(parameters) => found(parameters, runtime),
                },
                prepared: quote_spanned!(at.start=> #head #call),
                destructure: TokenStream::new(),
            }
        }
    }
}

fn named_context(named: &syn::Expr, runtime: &Runtime) -> TokenStream {
    let at = SpanRange::of(named);
    let head = at.head(runtime, "context");
    let call = quote_spanned!(at.end=> (#named));
    let context = quote_spanned!(at.start=> #head #call);
    quote_spanned!(Span::mixed_site()=> let found = #context;)
}

/// The context among the parameters: looked for in the whole ones first, then in what their patterns bind.
fn found(parameters: &Parameters, runtime: &Runtime) -> TokenStream {
    let site = Span::mixed_site();
    let whole = among(parameters.whole.iter().map(|(name, _)| name), runtime);
    let named = among(&parameters.named, runtime);
    let patterns = parameters
        .whole
        .iter()
        .map(|(name, pattern)| quote_spanned!(site=> let #pattern = #name;));
    quote_spanned! {site=>
        let found = #whole;
        #(#patterns)*
        let found = found.or(#named);
    }
}

fn among<'a>(names: impl IntoIterator<Item = &'a syn::Ident>, runtime: &Runtime) -> TokenStream {
    let site = Span::mixed_site();
    let (names, private) = (names.into_iter(), runtime.private(site));
    let all = names
        .map(|name| quote_spanned!(site=> (&#private::Parameter(&#name)).__idempotent_context(),));
    quote_spanned! {site=>
        {
            #[allow(unused_imports)]
            use #private::{IsContext as _, IsNoContext as _};
            #private::found(&[
                #(#all)*
            ])
        }
    }
}

/// A call that only the right type allows, placed at the part of the return type that must be right.
fn witness(runtime: &Runtime, function: &str, place: &TokenStream, of: TokenStream) -> TokenStream {
    let at = SpanRange::of(place);
    let head = at.head(runtime, function);
    let (open, close) = (quote_spanned!(at.start=> ::<), quote_spanned!(at.end=> >()));
    quote_spanned!(at.start=> #head #open #of #close)
}

/// One of the two types of the returned `Result`, whatever alias it has.
fn part(runtime: &Runtime, returned: &Returned, place: &TokenStream, part: &str) -> TokenStream {
    let at = SpanRange::of(place);
    let (whole, part) = (&returned.whole, syn::Ident::new(part, at.end));
    let open = quote_spanned!(at.start=> <);
    let private = runtime.private(at.end);
    let rest = quote_spanned!(at.end=> as #private::Returned>::#part);
    quote_spanned!(at.start=> #open #whole #rest)
}

/// What gives the body its type. It is taken apart and put together again, so that a return type that is no `Result` is
/// an error at that type alone.
fn never(runtime: &Runtime, returned: &Returned) -> TokenStream {
    let whole = returned.whole.to_token_stream();
    let at = SpanRange::of(&whole);
    let answer = part(runtime, returned, &whole, "Answer");
    let failure = part(runtime, returned, &whole, "Failure");
    witness(
        runtime,
        "never",
        &whole,
        quote_spanned!(at.start=> ::core::result::Result<#answer, #failure>),
    )
}

fn store(operation: &ValidatedFn) -> TokenStream {
    match &operation.store {
        Some(store) => {
            let head = SpanRange::of(store).head(&operation.runtime, "store");
            quote_spanned!(Span::mixed_site()=> ::core::option::Option::Some(#head(#store)))
        }
        None => quote_spanned!(Span::mixed_site()=> ::core::option::Option::None),
    }
}

fn answer(operation: &ValidatedFn) -> TokenStream {
    let hook = operation
        .on_replay
        .as_ref()
        .map(|hook| quote_spanned!(Span::mixed_site()=> .on_replay(#hook)));
    quote_spanned!(Span::mixed_site()=> outcome #hook.into_response())
}

/// From the first token of something to its last. An expression whose first and last tokens are placed there is
/// underlined as a whole, which a joined span cannot do on stable Rust.
struct SpanRange {
    start: Span,
    end: Span,
}

impl SpanRange {
    fn of(tokens: &impl ToTokens) -> Self {
        let mut tokens = tokens.to_token_stream().into_iter();
        let site = Span::mixed_site();
        let start = tokens.next().map_or(site, |token| token.span());
        let end = tokens.last().map_or(start, |token| token.span());
        Self {
            start: start.resolved_at(site),
            end: end.resolved_at(site),
        }
    }

    /// The path of a function of the hidden module.
    fn head(&self, runtime: &Runtime, function: &str) -> TokenStream {
        let function = syn::Ident::new(function, self.start);
        let private = runtime.private(self.start);
        quote_spanned!(self.start=> #private::#function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use crate::validate::validate;

    fn expanded(arguments: &str, item: &str) -> String {
        let function = syn::parse_str(item).unwrap();
        let arguments = Arguments::parse(arguments.parse().unwrap());
        let operation = validate(&function, arguments).ok().unwrap();
        expand(&function, &operation).to_string()
    }

    const HANDLER: &str =
        "#[doc = \"x\"] pub async fn f(event: LambdaEvent<u8>) -> Result<u8, E> { body(event) }";

    #[test]
    fn what_was_written_is_kept() {
        let code = expanded("", HANDLER);
        let signature =
            "# [doc = \"x\"] pub async fn f (event : LambdaEvent < u8 >) -> Result < u8 , E > {";
        assert!(code.starts_with(signature), "{code}");
        assert!(code.contains("} body (event) }"), "{code}");
    }

    #[test]
    fn a_setting_that_is_not_written_is_not_set() {
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
    fn a_constant_of_the_users_stands_where_its_value_would() {
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
    fn a_constant_that_requires_keys_may_be_a_truth_value() {
        let code = expanded("key_required = REQUIRED", HANDLER);
        let set = ":: idempotency_lambda :: __private :: Required (REQUIRED) . key_required ()";
        assert!(code.contains(set), "{code}");
    }

    #[test]
    fn the_runtime_is_found_where_the_attribute_says() {
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
            code.contains("let LambdaEvent { payload , .. } = event ; body"),
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
}
