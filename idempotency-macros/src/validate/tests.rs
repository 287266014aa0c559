//! Tests of the checks of the attribute's settings.

use idempotency_expression::{Scope, SettingRow};
use quote::ToTokens;

use super::*;

fn validated(arguments: &str, item: &str) -> Result<ValidatedFn, Error> {
    validate(
        &syn::parse_str(item).unwrap(),
        Arguments::parse(arguments.parse().unwrap()),
    )
}

fn errors(arguments: &str, item: &str) -> Vec<String> {
    match validated(arguments, item) {
        Ok(_) => Vec::new(),
        Err(error) => error.into_iter().map(|error| error.to_string()).collect(),
    }
}

fn error(arguments: &str, item: &str) -> String {
    let errors = errors(arguments, item);
    assert_eq!(errors.len(), 1, "{item}: {errors:?}");
    errors[0].clone()
}

const HANDLER: &str =
    "async fn handler(event: LambdaEvent<Order>) -> Result<Receipt, Error> { todo }";

#[test]
fn a_plain_handler_is_accepted() {
    let operation = validated("key = \"id\", lease = \"1m\"", HANDLER)
        .ok()
        .unwrap();
    assert_eq!(operation.constants.len(), 2);
    assert_eq!(operation.returned.response.to_string(), "Receipt");
    assert_eq!(operation.returned.failure.to_string(), "Error");
    assert!(matches!(
        operation.payload,
        PayloadSource::Event { pattern: None, .. }
    ));
}

#[test]
fn every_error_is_collected() {
    let errors = errors(
        "kee = \"a\", hash = \"md6\", lease = 3",
        "fn f<T>(a: A, b: B) {}",
    );
    // Not async, generic, no return type, unknown name, two wrong values, two parameters.
    assert_eq!(errors.len(), 7, "{errors:?}");
}

#[test]
fn a_pattern_is_matched_in_the_body() {
    for pattern in [
        "LambdaEvent { payload, .. }",
        "_",
        "ref event",
        "event @ LambdaEvent { .. }",
    ] {
        let item = HANDLER.replace("event:", &format!("{pattern}:"));
        let operation = validated("", &item).ok().unwrap();
        assert!(
            matches!(
                operation.payload,
                PayloadSource::Event {
                    pattern: Some(_),
                    ..
                }
            ),
            "{pattern}"
        );
        assert!(
            operation
                .signature
                .to_token_stream()
                .to_string()
                .contains("(__event : LambdaEvent")
        );
    }
}

#[test]
fn a_mutable_parameter_keeps_its_name() {
    let operation = validated("", &HANDLER.replace("event:", "mut event:"))
        .ok()
        .unwrap();
    assert!(matches!(
        operation.payload,
        PayloadSource::Event { pattern: None, .. }
    ));
}

#[test]
fn a_function_that_shares_its_path_needs_a_key_prefix() {
    for item in [
        "async fn f(&self) -> Result<u8, E> {}",
        "async fn f(self: Arc<Self>) -> Result<u8, E> {}",
        "async fn f(a: A) -> Result<Self, E> {}",
        "async fn f(a: A) -> Result<u8, E> { Self::g(a).await }",
        "async fn f<T>(a: T) -> Result<u8, E> {}",
        "async fn f<const N: usize>(a: [u8; N]) -> Result<u8, E> {}",
        "async fn f(a: &Vec<impl Serialize>) -> Result<u8, E> {}",
    ] {
        assert!(
            error("payload = a", item).contains("write `key_prefix ="),
            "{item}"
        );
        assert_eq!(
            errors("payload = a, key_prefix = \"f\"", item).len(),
            0,
            "{item}"
        );
    }
    assert_eq!(
        errors(
            "payload = a",
            "async fn f<'a>(a: &'a A) -> Result<u8, E> {}"
        )
        .len(),
        0
    );
}

#[test]
fn a_return_type_that_is_not_a_result_is_an_error_that_shows_one() {
    for (written, shown) in [
        ("()", "()"),
        ("Option<Receipt>", "Option<Receipt>"),
        ("&str", "&str"),
        ("u64", "u64"),
    ] {
        let message = error("", &HANDLER.replace("Result<Receipt, Error>", written));
        assert!(
            message.ends_with(&format!("write `-> Result<{shown}, Error>`")),
            "{message}"
        );
    }
}

#[test]
fn an_alias_is_left_to_the_compiler() {
    for alias in ["anyhow::Result<Receipt>", "Reply", "std::io::Result<()>"] {
        assert!(errors("", &HANDLER.replace("Result<Receipt, Error>", alias)).is_empty());
    }
    let operation = validated("", &HANDLER.replace("Result<Receipt, Error>", "Reply<u8>"))
        .ok()
        .unwrap();
    assert_eq!(operation.returned.failure.to_string(), "Reply < u8 >");
}

#[test]
fn a_response_that_borrows_is_an_error_that_shows_the_owned_type() {
    for (response, owned) in [
        ("&'static str", "`String`"),
        ("Vec<&'static str>", "`String`"),
        ("&'static [u8]", "`Vec<u8>`"),
        ("(u8, &'static Order)", "`Order`"),
        ("Option<[(&'static Order, u8); 2]>", "`Order`"),
        ("HashMap<u8, Box<&'static str>>", "`String`"),
    ] {
        let message = error("", &HANDLER.replace("Receipt", response));
        assert!(message.contains("must own what it holds"), "{message}");
        assert!(message.ends_with(owned), "{message}");
    }
    // An error is not stored, and these types own their values.
    for (from, to) in [
        ("Error>", "&'static str>"),
        ("Receipt", "Handle<fn(&str)>"),
        ("Receipt", "PhantomData<&'static str>"),
        ("Receipt", "Vec<PhantomData<&'static str>>"),
        ("Receipt", "<&'static str as Owned>::Out"),
    ] {
        assert!(validated("", &HANDLER.replace(from, to)).is_ok(), "{to}");
    }
}

#[test]
fn the_context_is_named_or_found_among_the_parameters() {
    let item =
        "async fn f(app: &App, LambdaEvent { payload, .. }: LambdaEvent<u8>) -> Result<u8, E> {}";
    let context = |arguments: &str| match validated(arguments, item).ok().unwrap().payload {
        PayloadSource::Value { context, .. } => context,
        _ => panic!("the payload is an expression"),
    };
    assert!(
        matches!(context("payload = payload"), ContextSource::Parameters(found) if found.named.len() == 2)
    );
    let named = context("payload = payload, context = app.context");
    assert!(
        matches!(named, ContextSource::Named(named) if named.to_token_stream().to_string() == "& app . context")
    );
    assert!(error("payload = payload, context = \"app\"", item).contains("without quotes"));
}

#[test]
fn a_handler_of_http_events_says_who_the_caller_is() {
    let caller = "caller = \"requestContext.authorizer.jwt.claims.sub\"";
    for arguments in [
        format!("http, {caller}"),
        "http, shared_by_all_callers".to_owned(),
        format!("http, {caller}, shared_by_all_callers = false"),
        "http, caller = CALLER, key_header = \"x-request-id\"".to_owned(),
    ] {
        assert!(validated(&arguments, HANDLER).is_ok(), "{arguments}");
    }
    for arguments in [
        "http",
        "http, shared_by_all_callers = false",
        "http, key = \"a\"",
    ] {
        let error = error(arguments, HANDLER);
        assert!(
            error.starts_with("say who the caller is"),
            "{arguments}: {error}"
        );
    }
    let both = error(&format!("http, {caller}, shared_by_all_callers"), HANDLER);
    assert!(
        both.contains("leave `caller` or `shared_by_all_callers` out"),
        "{both}"
    );
}

const RECORD: &str = "async fn f(app: &App, Order { id, .. }: Order) -> Result<u8, E> {}";

#[test]
fn the_last_parameter_is_the_record_of_a_batch() {
    for shape in ["sqs", "kinesis", "dynamodb_stream"] {
        let validated = validated(shape, RECORD).ok().unwrap();
        let PayloadSource::Record { pattern, of } = validated.payload else {
            panic!("the payload is a record");
        };
        assert_eq!(pattern.to_token_stream().to_string(), "Order { id , .. }");
        assert_eq!(of.to_token_stream().to_string(), "Order");
    }
    assert!(error("sqs", "async fn f() -> Result<u8, E> {}").contains("the last parameter"));
    let reference = "async fn f(order: &Order) -> Result<u8, E> {}";
    assert!(error("sqs", reference).contains("by value"));
    assert!(error("sqs", HANDLER).contains("handles one record"));
}

#[test]
fn the_settings_of_a_batch_belong_to_functions_of_one_record() {
    for setting in [
        "key_from = \"record\"",
        "concurrency = 4",
        "order = \"partition_key\"",
        "reserve = \"2s\"",
        "log_errors = true",
    ] {
        let error = error(setting, HANDLER);
        assert!(error.contains("is a setting of batches"), "{error}");
        let arguments = format!("kinesis, key = \"id\", {setting}");
        assert!(validated(&arguments, RECORD).is_ok(), "{arguments}");
    }
    for setting in ["payload = id", "context = app.context", "on_replay = mark"] {
        let arguments = format!("sqs, {setting}");
        assert!(error(&arguments, RECORD).starts_with("with `sqs` leave"));
    }
    assert!(error("sqs, validate = \"amount\"", RECORD).contains("needs a `key`"));
    assert!(error("sqs, order = \"source\"", RECORD).contains("leave `order` out"));
    assert!(error("sqs, caller = \"a\"", RECORD).contains("handlers of HTTP events"));
    assert!(error("http, shared_by_all_callers, reserve = \"1s\"", HANDLER).contains("batches"));
}

#[test]
fn a_function_with_steps_needs_its_call() {
    let with_call = "async fn f(event: E, call: Call) -> Result<u8, E> { Ok(1) }";
    for steps in ["keep", "Forget"] {
        let steps = format!("steps = \"{steps}\"");
        assert!(error(&steps, HANDLER).contains("add a parameter `call: Call`"));
        let of_a_payload = format!("{steps}, key_prefix = \"a\", payload = event");
        assert!(error(&of_a_payload, HANDLER).contains("add a parameter `call: Call`"));
        assert!(validated(&steps, with_call).is_ok(), "{steps}");
    }
    for steps in ["steps = \"off\"", "steps = STEPS"] {
        assert!(validated(steps, HANDLER).is_ok(), "{steps}");
    }
    // The type is one of the program: the function has no call.
    let own = "async fn f(id: u8, call: Call) -> Result<u8, E> { Ok(1) }";
    let error = error("steps = \"keep\", payload = call.number", own);
    assert!(error.contains("add a parameter `call: Call`"), "{error}");
}

#[test]
fn a_function_that_holds_cannot_run_unprotected() {
    let both = "key_prefix = \"a\", on_timeout = \"hold\", on_store_error = \"Run-Unprotected\"";
    assert!(error(both, HANDLER).contains("contradicts `on_timeout = \"hold\"`"));
    for one in [
        "on_timeout = \"rerun\", on_store_error = \"run-unprotected\"",
        "on_timeout = \"hold\", on_store_error = \"fail\"",
        "on_timeout = HOLD, on_store_error = \"run-unprotected\"",
    ] {
        assert!(validated(one, HANDLER).is_ok(), "{one}");
    }
}

/// The compiler's own tests, `tests/ui`, have whole texts and their places.
#[test]
fn a_function_that_cannot_be_protected_is_one_error_that_says_what_to_write() {
    let boxed = "fn f<'a>(event: LambdaEvent<u8>) -> Pin<Box<dyn Future<Output = Result<u8, E>> + Send + 'a>> {}";
    let returns = |of: &str| HANDLER.replace("Result<Receipt, Error>", of);
    let takes = |of: &str| format!("async fn f({of}) -> Result<u8, E> {{}}");
    let http = "http, shared_by_all_callers, key_prefix = \"f\"";
    for (arguments, item, text) in [
        ("", HANDLER.replace("async ", ""), "write `async fn`"),
        ("", boxed.to_owned(), "#[async_trait]"),
        (
            "",
            HANDLER.replace("-> Result<Receipt, Error>", ""),
            "write `-> Result<",
        ),
        (
            "",
            returns("Result<impl Serialize, Error>"),
            "name the type",
        ),
        (
            "",
            returns("Result<Vec<impl Serialize>, Error>"),
            "name the type",
        ),
        ("", takes(""), "there is no payload here"),
        ("", takes("a: A, b: B"), "more than one parameter"),
        (
            "key_prefix = \"p\"",
            takes("&self"),
            "a method needs a payload",
        ),
        (
            "key_prefix = \"p\"",
            takes("&self, a: A, input: LambdaEvent<u8>"),
            "write `payload = input.payload`",
        ),
        ("payload = \"a\"", takes("a: A, b: B"), "without quotes"),
        (
            "context = event.context",
            HANDLER.to_owned(),
            "leave `context` out",
        ),
        (
            http,
            takes(""),
            "with `http` the last parameter is the event",
        ),
        (
            http,
            takes("&self"),
            "with `http` the last parameter is the event",
        ),
    ] {
        assert!(
            error(arguments, &item).contains(text),
            "{arguments}: {item}"
        );
    }
}

#[test]
fn a_wrong_setting_of_http_is_one_error_that_says_what_to_write() {
    for (setting, text) in [
        ("caller = \"\"", "`caller` is empty"),
        ("caller = \"a[\"", "`caller` is not an expression"),
        ("caller", "`caller` needs a value"),
        ("shared_by_all_callers = 1", "is `true` or `false`"),
        (
            "caller = \"requestContext.identity.userArn\"",
            "write `iam_caller(@)`",
        ),
    ] {
        assert!(
            error(&format!("http, {setting}"), HANDLER).contains(text),
            "{setting}"
        );
    }
    let lists = "is a list of headers";
    let (token, capitals) = ("is the name of a header", "write them in capitals");
    for (setting, text) in [
        ("payload = event", "the event is the request"),
        ("context = event.context", "the event is the request"),
        ("key_header = \"\"", token),
        ("key_header = \"a b\"", token),
        ("key_header = \"a:\"", token),
        ("key_header = \"ü\"", token),
        ("stored_headers = \"\"", lists),
        ("stored_headers = \"x-a,\"", lists),
        ("stored_headers = \"x-a x-b\"", lists),
        ("methods = \"\"", capitals),
        ("methods = \"put\"", capitals),
        ("methods = \"POST PUT\"", capitals),
        ("methods = \"POST,\"", capitals),
        ("methods = \"Post\"", capitals),
        (
            "on_unstorable = \"keep\"",
            "\"complete\", \"release\", \"refuse\"",
        ),
        (
            "add_headers = \"cors\"",
            "write the name of a `fn(&HeaderMap) -> HeaderMap`",
        ),
        ("fingerprint_also = \"a[\"", "is not an expression"),
        (
            "fingerprint_also = \"a\", validate = \"b\"",
            "leave `fingerprint_also` out",
        ),
    ] {
        let error = error(&format!("http, shared_by_all_callers, {setting}"), HANDLER);
        assert!(error.contains(text), "{error}");
    }
    for row in SettingRow::of(Scope::Http) {
        let error = error(&format!("{} = {}", row.name, row.example), HANDLER);
        assert!(error.contains("write `#[idempotent(http, "), "{error}");
    }
}

#[test]
fn the_settings_of_http_are_accepted() {
    for setting in [
        "stored_headers = \"x-receipt\"",
        "stored_headers = \"x-receipt, x-total\", on_unstorable = \"Refuse\"",
        "on_unstorable = Unstorable::Refuse",
        "add_headers = cors",
        "add_headers = crate::cors",
        "add_headers = |_| HeaderMap::new()",
        "fingerprint_also = \"header(@, 'host')\"",
        "methods = \"PUT\"",
        "methods = \"POST, PUT\"",
        "methods = \"POST,M-SEARCH\"",
    ] {
        let arguments = format!("http, shared_by_all_callers, {setting}");
        assert!(validated(&arguments, HANDLER).is_ok(), "{setting}");
    }
    assert!(validated("http, caller = \"iam_caller(@)\"", HANDLER).is_ok());
}
