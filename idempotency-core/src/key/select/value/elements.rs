//! The elements of an array that are taken from a value.

use serde::ser::{
    Serialize, SerializeSeq, SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};

use super::super::needs::{at, farthest};
use super::{Elements, Needs, Result, Taker, Unfit, Variant};
use crate::key::{Budget, Json, List};

/// An array that is being taken.
pub(super) struct Array<'n, 'b> {
    wanted: Wanted<'n>,
    /// How many elements came.
    count: usize,
    elements: List<Json>,
    budget: &'b mut Budget,
    depth: usize,
    around: Option<Variant>,
}

/// Which elements are taken.
enum Wanted<'n> {
    None,
    First(&'n [(usize, Needs)]),
    /// The places are counted from the end, so the length must be known.
    Last(&'n [(usize, Needs)], usize),
    Each(&'n Needs),
}

impl<'n, 'b> Array<'n, 'b> {
    pub(super) fn new(
        needs: &'n Needs,
        length: Option<usize>,
        budget: &'b mut Budget,
        depth: usize,
    ) -> Result<Self> {
        let wanted = match needs {
            Needs::Kind => Wanted::None,
            Needs::All => Wanted::Each(&Needs::All),
            Needs::Parts(parts) => match &parts.elements {
                Elements::None => Wanted::None,
                Elements::First(places) => Wanted::First(places),
                Elements::Last(places) => Wanted::Last(places, length.ok_or(Unfit)?),
                Elements::Each(needs) => Wanted::Each(needs),
            },
        };
        Ok(Self {
            wanted,
            count: 0,
            elements: List::new(),
            budget,
            depth,
            around: None,
        })
    }

    /// Puts the array inside the object of a variant.
    pub(super) fn inside(mut self, around: Variant) -> Self {
        self.around = Some(around);
        self
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let place = self.count;
        self.count += 1;
        let needs = match self.wanted {
            Wanted::None => return Ok(()),
            Wanted::Each(needs) => needs,
            Wanted::First(places) if place > farthest(places) => return Ok(()),
            Wanted::First(places) => at(places, place),
            Wanted::Last(places, length) => {
                let distance = length.checked_sub(place).ok_or(Unfit)?;
                if distance > farthest(places) {
                    return Ok(());
                }
                at(places, distance)
            }
        };
        let element = value.serialize(Taker {
            needs,
            budget: &mut *self.budget,
            depth: self.depth,
        })?;
        Ok(self.elements.push(element, self.budget)?)
    }

    fn finish(self) -> Result<Json> {
        // A length that was promised and not kept would move all places.
        if matches!(self.wanted, Wanted::Last(_, length) if length != self.count) {
            return Err(Unfit);
        }
        let array = Json::Array(self.elements.finish(self.budget)?);
        match self.around {
            Some(around) => around.around(array, self.budget),
            None => Ok(array),
        }
    }
}

impl SerializeSeq for Array<'_, '_> {
    type Ok = Json;
    type Error = Unfit;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.element(value)
    }

    fn end(self) -> Result<Json> {
        self.finish()
    }
}

impl SerializeTuple for Array<'_, '_> {
    type Ok = Json;
    type Error = Unfit;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.element(value)
    }

    fn end(self) -> Result<Json> {
        self.finish()
    }
}

impl SerializeTupleStruct for Array<'_, '_> {
    type Ok = Json;
    type Error = Unfit;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.element(value)
    }

    fn end(self) -> Result<Json> {
        self.finish()
    }
}

impl SerializeTupleVariant for Array<'_, '_> {
    type Ok = Json;
    type Error = Unfit;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.element(value)
    }

    fn end(self) -> Result<Json> {
        self.finish()
    }
}
