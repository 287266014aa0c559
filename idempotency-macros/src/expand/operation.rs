//! The operation of a function: a static with its settings, which registers itself.

use idempotency_expression::{SETTINGS, Scope};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};

use super::SpanRange;
use crate::arguments::{Shape, names};
use crate::parse::Function;
use crate::validate::ValidatedFn;
use crate::values::{self, Constant};

/// Returns a block with the operation's static and its registration.
///
/// Hygiene does not apply to statics, so their names are ones that a user's constant does not have.
pub(super) fn operation(function: &Function, validated: &ValidatedFn) -> TokenStream {
    let site = Span::mixed_site();
    let name = function.name();
    let private = validated.runtime.private(site);
    // All fields are written out, so that a new one cannot be forgotten.
    let settings = SETTINGS.iter().map(|row| field(row.name, validated));
    let http = (validated.shape == Some(Shape::Http)).then(|| {
        let settings = names(Scope::Http).map(|name| field(name, validated));
        let rules = quote_spanned! {site=>
            static __IDEMPOTENT_HTTP: #private::RegisteredHttp =
                #private::RegisteredHttp::new(#private::HttpSettings { #(#settings)* });
        };
        (rules, quote_spanned!(site=> .with_http(&__IDEMPOTENT_HTTP)))
    });
    let (rules, http) = http.unwrap_or_default();
    let own_store = validated
        .store
        .is_some()
        .then(|| quote_spanned!(site=> .with_its_own_store()));
    quote_spanned! {site=>
        {
            #rules
            static __IDEMPOTENT_OPERATION: #private::RegisteredOperation = #private::RegisteredOperation::new(
                ::core::concat!(::core::module_path!(), "::", #name),
                ::core::concat!(::core::file!(), ":", ::core::line!()),
                #private::Settings {
                    #(#settings)*
                },
            )#http #own_store;
            #[#private::linkme::distributed_slice(#private::OPERATIONS)]
            #[linkme(crate = #private::linkme)]
            static __IDEMPOTENT_REGISTERED: &'static #private::RegisteredOperation = &__IDEMPOTENT_OPERATION;
            &__IDEMPOTENT_OPERATION
        }
    }
}

/// Returns a setting as a field of type `Option`.
fn field(name: &str, validated: &ValidatedFn) -> TokenStream {
    let site = Span::mixed_site();
    let field = values::ident(name);
    let value = match setting(name, validated, &validated.runtime.private(site)) {
        Some(value) => quote_spanned!(site=> ::core::option::Option::Some(#value)),
        None => quote_spanned!(site=> ::core::option::Option::None),
    };
    quote_spanned!(site=> #field: #value,)
}

/// Returns the value of a setting, or `None` if the attribute does not have it. `enums` is the module of the setting's enum.
pub(super) fn setting(
    name: &str,
    validated: &ValidatedFn,
    enums: &TokenStream,
) -> Option<TokenStream> {
    let runtime = &validated.runtime;
    let mut constants = validated.constants.iter();
    if let Some((_, value)) = constants.find(|(written, _)| written == name) {
        return Some(constant(value, &runtime.private(Span::mixed_site()), enums));
    }
    let mut paths = validated.paths.iter();
    let (_, path) = paths.find(|(written, _)| written == name)?;
    let at = SpanRange::of(path);
    Some(match name {
        // A `bool` or a `KeyRequired`.
        "key_required" => {
            let required = at.head(runtime, "Required");
            quote_spanned!(at.end=> #required(#path).key_required())
        }
        "key"
        | "validate"
        | "key_prefix"
        | "store_when"
        | "store_event"
        | "caller"
        | "key_header"
        | "methods"
        | "fingerprint_also"
        | "fingerprint_rfc8785"
        | "stored_headers" => {
            let text = at.head(runtime, "Cow");
            quote_spanned!(at.end=> #text::Borrowed(#path))
        }
        _ => path.to_token_stream(),
    })
}

/// Returns a value that is known at compile time, as an expression.
fn constant(value: &Constant, private: &TokenStream, enums: &TokenStream) -> TokenStream {
    let site = Span::mixed_site();
    match value {
        Constant::Text(text) => quote_spanned!(site=> #private::Cow::Borrowed(#text)),
        Constant::Bool(value) => quote_spanned!(site=> #value),
        Constant::Number(number) => quote_spanned!(site=> #number),
        Constant::Time(time) => {
            let (seconds, nanoseconds) = (time.as_secs(), time.subsec_nanos());
            quote_spanned!(site=> #private::Duration::new(#seconds, #nanoseconds))
        }
        Constant::Choice(kind, variant) => {
            let (kind, variant) = (values::ident(kind), values::ident(variant));
            quote_spanned!(site=> #enums::#kind::#variant)
        }
    }
}
