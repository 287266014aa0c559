//! Tests `#[idempotent]` in a program that renames `idempotency-lambda` in `Cargo.toml`, or re-exports it from a module.

use protected::{BoxError, LambdaEvent, idempotent};

/// A crate's own re-export.
pub mod facade {
    pub use protected as lambda;
}

/// Uses the name of the dependency in `Cargo.toml`.
///
/// # Errors
///
/// If the call cannot be made idempotent.
#[idempotent(key = "@")]
pub async fn found(event: LambdaEvent<u32>) -> Result<u32, BoxError> {
    Ok(event.payload)
}

/// Uses the path in the attribute.
///
/// # Errors
///
/// If the call cannot be made idempotent.
#[facade::lambda::idempotent(payload = order, lease = "1m", crate = crate::facade::lambda)]
pub async fn named(order: u32) -> Result<u32, BoxError> {
    Ok(order)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protected::{Context, MemoryStore, backend_over, with_backend};

    use super::*;

    #[tokio::test]
    async fn a_renamed_crate_and_a_re_exported_one_protect_their_functions() -> Result<(), BoxError>
    {
        let store = Arc::new(MemoryStore::new());
        with_backend(backend_over(store.clone()), async {
            for _ in 0..2 {
                assert_eq!(found(LambdaEvent::new(1, Context::default())).await?, 1);
                assert_eq!(named(2).await?, 2);
            }
            Ok::<_, BoxError>(())
        })
        .await?;
        assert_eq!(store.len(), 2, "each of the two has one record");
        Ok(())
    }
}
