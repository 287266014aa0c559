//! The members of an object that are taken from a value.

use serde::ser::{Serialize, SerializeMap, SerializeStruct, SerializeStructVariant};

use super::name::Name;
use super::{Needs, Result, Taker, Unfit, Variant, Wanted};
use crate::key::parse::Reader;
use crate::key::{Budget, Json, List, Object, Text};

/// An object that is being taken.
pub(super) struct Members<'n, 'b> {
    wanted: Wanted<'n>,
    members: List<(Text, Json)>,
    /// The key of a map whose value comes next.
    next: Option<(Text, &'n Needs)>,
    budget: &'b mut Budget,
    depth: usize,
    around: Option<Variant>,
    raw: Option<Raw<'n>>,
}

/// A value that `serde_json` writes as it is: a `RawValue`, or a number if the program keeps its digits.
struct Raw<'n> {
    needs: &'n Needs,
    value: Option<Json>,
}

/// Returns true for the names that `serde_json` gives to structs whose one field is written as it is.
pub(super) fn is_raw(name: &'static str) -> bool {
    matches!(
        name,
        "$serde_json::private::RawValue" | "$serde_json::private::Number"
    )
}

impl<'n, 'b> Members<'n, 'b> {
    pub(super) fn new(wanted: Wanted<'n>, budget: &'b mut Budget, depth: usize) -> Self {
        Self {
            wanted,
            members: List::new(),
            next: None,
            budget,
            depth,
            around: None,
            raw: None,
        }
    }

    /// Takes a value that is written as it is.
    pub(super) fn raw(needs: &'n Needs, budget: &'b mut Budget, depth: usize) -> Self {
        let raw = Some(Raw { needs, value: None });
        Self {
            raw,
            ..Self::new(Wanted::None, budget, depth)
        }
    }

    /// Puts the object inside the object of a variant.
    pub(super) fn inside(mut self, around: Variant) -> Self {
        self.around = Some(around);
        self
    }

    fn value<T: Serialize + ?Sized>(
        &mut self,
        name: Text,
        needs: &'n Needs,
        value: &T,
    ) -> Result<()> {
        let value = value.serialize(Taker {
            needs,
            budget: &mut *self.budget,
            depth: self.depth,
        })?;
        Ok(self.members.push((name, value), self.budget)?)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
        if let Some(raw) = &mut self.raw {
            // An enum that writes its tag first makes another struct of it, which `serde_json` refuses.
            if !is_raw(name) || raw.value.is_some() {
                return Err(Unfit);
            }
            let value = value.serialize(Name(|text: &str| {
                let reader = Reader::new(text.as_bytes(), self.depth, self.budget);
                let value = reader.document(|reader| reader.select(raw.needs));
                value.map_err(|_| Unfit)
            }))?;
            raw.value = Some(value);
            return Ok(());
        }
        let Some(needs) = self.wanted.member(name.as_bytes()) else {
            return Ok(());
        };
        self.budget.allocate(name.len())?;
        self.value(name.into(), needs, value)
    }

    fn finish(self) -> Result<Json> {
        if let Some(raw) = self.raw {
            return raw.value.ok_or(Unfit);
        }
        let members = self.members.finish(self.budget)?;
        let object = Json::Object(Object::charged(members, self.budget)?);
        match self.around {
            Some(around) => around.around(object, self.budget),
            None => Ok(object),
        }
    }
}

impl SerializeMap for Members<'_, '_> {
    type Ok = Json;
    type Error = Unfit;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.next = match self.wanted {
            Wanted::None => None,
            wanted => key.serialize(Name(|name: &str| {
                let Some(needs) = wanted.member(name.as_bytes()) else {
                    return Ok(None);
                };
                self.budget.allocate(name.len())?;
                Ok(Some((name.into(), needs)))
            }))?,
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        match self.next.take() {
            Some((name, needs)) => self.value(name, needs, value),
            None => Ok(()),
        }
    }

    fn end(self) -> Result<Json> {
        self.finish()
    }
}

impl SerializeStruct for Members<'_, '_> {
    type Ok = Json;
    type Error = Unfit;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        self.field(name, value)
    }

    fn end(self) -> Result<Json> {
        self.finish()
    }
}

impl SerializeStructVariant for Members<'_, '_> {
    type Ok = Json;
    type Error = Unfit;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        self.field(name, value)
    }

    fn end(self) -> Result<Json> {
        self.finish()
    }
}
