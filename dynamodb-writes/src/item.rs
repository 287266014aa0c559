//! An item of the user, and how it is kept out of `Debug`.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

use aws_sdk_dynamodb::types::AttributeValue;

/// An item.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// A value that `Debug` does not show, because it can contain data of the user.
#[derive(Clone)]
pub(crate) struct Hidden<T>(pub(crate) T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl<T> Deref for Hidden<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Hidden<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
