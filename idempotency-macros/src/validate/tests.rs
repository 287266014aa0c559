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
fn a_plain_handler_is_right() {
    let operation = validated("key = \"id\", lease = \"1m\"", HANDLER)
        .ok()
        .unwrap();
    assert_eq!(operation.constants.len(), 2);
    assert_eq!(operation.returned.answer.to_string(), "Receipt");
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
                .contains("(event : LambdaEvent")
        );
    }
}

#[test]
fn a_mutable_name_is_a_name() {
    let operation = validated("", &HANDLER.replace("event:", "mut event:"))
        .ok()
        .unwrap();
    assert!(matches!(
        operation.payload,
        PayloadSource::Event { pattern: None, .. }
    ));
}

#[test]
fn a_function_that_is_not_async_is_told_so() {
    assert!(error("", &HANDLER.replace("async ", "")).ends_with("write `async fn`"));
    let boxed = "fn f<'a>(event: LambdaEvent<u8>) -> Pin<Box<dyn Future<Output = Result<u8, E>> + Send + 'a>> {}";
    assert!(error("", boxed).contains("#[async_trait]"));
}

#[test]
fn without_one_event_the_payload_must_be_named() {
    let say = |parameters: &str| {
        error(
            "key_prefix = \"p\"",
            &format!("async fn f({parameters}) -> Result<u8, E> {{}}"),
        )
    };
    assert!(say("").contains("there is no payload here"));
    assert!(say("a: A, b: B").contains("more than one parameter"));
    assert!(say("&self").contains("a method says what its payload is"));
    assert!(say("&self, event: LambdaEvent<u8>").contains("a method says what its payload is"));
}

#[test]
fn a_wrong_payload_is_one_error() {
    assert!(
        error(
            "payload = \"a\"",
            "async fn f(a: A, b: B) -> Result<u8, E> {}"
        )
        .contains("without quotes")
    );
}

#[test]
fn a_prefix_is_needed_where_the_path_does_not_identify() {
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
fn the_answer_has_a_name() {
    assert!(
        error("", &HANDLER.replace("-> Result<Receipt, Error>", "")).contains("write `-> Result<")
    );
    assert!(error("", &HANDLER.replace("Receipt", "impl Serialize")).contains("name the type"));
    assert!(
        error("", &HANDLER.replace("Receipt", "Vec<impl Serialize>")).contains("name the type")
    );
}

#[test]
fn what_is_surely_no_result_is_told_what_to_be() {
    for (written, shown) in [
        ("()", "()"),
        ("Option<Receipt>", "Option<Receipt>"),
        ("&str", "&str"),
        ("u64", "u64"),
    ] {
        let said = error("", &HANDLER.replace("Result<Receipt, Error>", written));
        assert!(
            said.ends_with(&format!("write `-> Result<{shown}, Error>`")),
            "{said}"
        );
    }
}

#[test]
fn an_alias_is_left_to_the_compiler() {
    for alias in ["anyhow::Result<Receipt>", "Answered", "std::io::Result<()>"] {
        assert!(errors("", &HANDLER.replace("Result<Receipt, Error>", alias)).is_empty());
    }
    let operation = validated(
        "",
        &HANDLER.replace("Result<Receipt, Error>", "Answered<u8>"),
    )
    .ok()
    .unwrap();
    assert_eq!(operation.returned.failure.to_string(), "Answered < u8 >");
}

#[test]
fn the_attribute_stands_once() {
    let twice = format!("#[idempotency_lambda::idempotent] {HANDLER}");
    assert!(error("", &twice).contains("written twice"));
}

#[test]
fn a_response_that_borrows_is_told_what_to_own() {
    for (response, owned) in [
        ("&'static str", "`String`"),
        ("Vec<&'static str>", "`String`"),
        ("&'static [u8]", "`Vec<u8>`"),
        ("(u8, &'static Order)", "`Order`"),
        ("Option<[(&'static Order, u8); 2]>", "`Order`"),
        ("HashMap<u8, Box<&'static str>>", "`String`"),
    ] {
        let told = error("", &HANDLER.replace("Receipt", response));
        assert!(told.contains("must own what it holds"), "{told}");
        assert!(told.ends_with(owned), "{told}");
    }
    // What an error holds is not stored, and neither is a function's parameter.
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
fn the_context_is_named_or_looked_for_among_the_parameters() {
    let item =
        "async fn f(app: &App, LambdaEvent { payload, .. }: LambdaEvent<u8>) -> Result<u8, E> {}";
    let context = |arguments: &str| match validated(arguments, item).ok().unwrap().payload {
        PayloadSource::Value { context, .. } => context,
        PayloadSource::Event { .. } => panic!("it has a payload of its own"),
    };
    assert!(
        matches!(context("payload = payload"), Context::Parameters(found) if found.named.len() == 2)
    );
    let named = context("payload = payload, context = app.context");
    assert!(
        matches!(named, Context::Named(named) if named.to_token_stream().to_string() == "& app . context")
    );
    assert!(error("payload = payload, context = \"app\"", item).contains("without quotes"));
}

#[test]
fn an_event_has_a_context_of_its_own() {
    assert!(error("context = event.context", HANDLER).contains("leave `context` out"));
}
