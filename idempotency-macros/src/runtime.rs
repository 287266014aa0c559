//! Finds the path of the runtime, `idempotency-lambda`, for the generated code.
//!
//! The path is the one in `crate = ..`, or the name that the user's `Cargo.toml` gives to the dependency: a user who renames it
//! would otherwise see "cannot find `idempotency_lambda`" in generated code. `toml-span` is one crate; `proc-macro-crate` needs
//! six more, and starts a `cargo` in each compilation. `toml-span` reads no dates, and this file no `package.workspace`: a program with
//! a renamed dependency and one of these in its manifest needs `crate = ..`.

use std::path::{Path as FilePath, PathBuf};
use std::{env, fs, iter};

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::{Ident, Path};
use toml_span::Value;

/// The package of the runtime.
const PACKAGE: &str = "idempotency-lambda";

/// The path of the runtime.
pub(crate) enum Runtime {
    /// The name of the dependency in the user's program.
    Dependency(String),
    /// The path in `crate = ..`, for a program that uses the runtime through another crate.
    Argument(Path),
}

impl Runtime {
    /// Returns the path that was written, or else the name of the dependency.
    pub(crate) fn find(written: Option<Path>) -> Self {
        match written {
            Some(path) => Self::Argument(path),
            // If the manifest or the dependency is missing, the compiler reports the missing crate.
            None => Self::Dependency(dependency().unwrap_or(PACKAGE.to_owned()).replace('-', "_")),
        }
    }

    /// Returns the path of the runtime's hidden module, with this span.
    pub(crate) fn private(&self, span: Span) -> TokenStream {
        match self {
            Self::Dependency(name) => {
                let name = Ident::new(name, span);
                quote_spanned!(span=> ::#name::__private)
            }
            Self::Argument(path) => {
                let placed = path
                    .to_token_stream()
                    .into_iter()
                    .map(|mut token: TokenTree| {
                        token.set_span(span);
                        token
                    });
                let path = TokenStream::from_iter(placed);
                quote_spanned!(span=> #path::__private)
            }
        }
    }
}

/// Returns the name of the runtime's dependency in the manifest of the program that is compiled.
fn dependency() -> Option<String> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let is_root =
        |text: &String| toml_span::parse(text).is_ok_and(|root| root.has_key("workspace"));
    let workspace = || folder.ancestors().filter_map(manifest).find(is_root);
    name_in(&manifest(&folder)?, workspace)
}

fn manifest(folder: &FilePath) -> Option<String> {
    fs::read_to_string(folder.join("Cargo.toml")).ok()
}

/// Returns the name of the runtime among the dependencies of a manifest. `workspace` reads the manifest of its workspace.
fn name_in(manifest: &str, workspace: impl FnOnce() -> Option<String>) -> Option<String> {
    let manifest = toml_span::parse(manifest).ok()?;
    let targets = manifest.pointer("/target").and_then(Value::as_table);
    let dependencies: Vec<_> = iter::once(&manifest)
        .chain(targets.into_iter().flat_map(|targets| targets.values()))
        .flat_map(|of| ["/dependencies", "/dev-dependencies"].map(|kind| of.pointer(kind)))
        .filter_map(|table| table?.as_table())
        .flatten()
        .collect();
    let own = dependencies
        .iter()
        .find(|(name, entry)| package(name, entry) == PACKAGE);
    if let Some((name, _)) = own {
        return Some(name.to_string());
    }
    let text = workspace()?;
    let workspace = toml_span::parse(&text).ok()?;
    let inherited = workspace.pointer("/workspace/dependencies")?.as_table()?;
    let is_runtime = |name: &str| {
        inherited
            .get_key_value(name)
            .is_some_and(|(name, entry)| package(name, entry) == PACKAGE)
    };
    dependencies
        .iter()
        .find(|(name, entry)| entry.has_key("workspace") && is_runtime(&name.name))
        .map(|(name, _)| name.to_string())
}

/// Returns the package of a dependency with this name.
fn package<'a>(name: &'a toml_span::value::Key<'_>, entry: &'a Value<'_>) -> &'a str {
    entry
        .pointer("/package")
        .and_then(Value::as_str)
        .unwrap_or(&name.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_has_the_name_of_its_entry_in_the_manifest() {
        let workspace = r#"
            [workspace.dependencies]
            idempotency-lambda = "1"
            protected = { package = "idempotency-lambda", version = "1" }
        "#;
        // A manifest, with `;` between its lines, and the name in it.
        let manifests = "
            [dependencies]; idempotency-lambda = '1' => idempotency-lambda
            [dependencies]; idempotency-lambda = { workspace = true } => idempotency-lambda
            [dependencies]; protected = { package = 'idempotency-lambda' } => protected
            [dependencies]; other = '1'; protected.package = 'idempotency-lambda' => protected
            [dependencies.protected]; version = '1'; package = 'idempotency-lambda' => protected
            [dev-dependencies]; protected = { package = 'idempotency-lambda' } => protected
            [target.'cfg(unix)'.dependencies]; protected.package = 'idempotency-lambda' => protected
            [dependencies]; protected.workspace = true => protected
            [dependencies]; protected = '1' => none
            [dependencies]; other.package = 'other-lambda' => none
            [package]; name = 'idempotency-lambda' => none
            not a manifest => none";
        for line in manifests.lines().skip(1) {
            let (manifest, name) = line.split_once(" => ").unwrap();
            let found = name_in(&manifest.replace(';', "\n"), || Some(workspace.to_owned()));
            assert_eq!(found.as_deref().unwrap_or("none"), name, "{manifest}");
        }
    }
}
