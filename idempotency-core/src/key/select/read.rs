//! Reads what an expression looks at from text, and checks the rest.

use super::needs::{Elements, Needs, Parts, WINDOW, at, farthest};
use crate::key::parse::Reader;
use crate::key::{Json, JsonErrorKind, List, Object};

type Result<T> = std::result::Result<T, JsonErrorKind>;

impl Reader<'_, '_> {
    /// Reads what is looked at in the next value.
    pub(in crate::key) fn select(&mut self, needs: &Needs) -> Result<Json> {
        match needs {
            Needs::All => self.value(),
            Needs::Kind => self.skip(),
            Needs::Parts(parts) => match (self.peek(), &parts.elements) {
                (Some(b'{'), _) if parts.has_members() => {
                    self.nested(|reader| reader.select_members(parts))
                }
                (Some(b'['), Elements::First(places)) => {
                    self.nested(|reader| reader.select_first(places))
                }
                (Some(b'['), Elements::Last(places)) => {
                    self.nested(|reader| reader.select_last(places))
                }
                (Some(b'['), Elements::Each(needs)) => {
                    self.nested(|reader| reader.select_each(needs))
                }
                _ => self.skip(),
            },
        }
    }

    fn select_members(&mut self, parts: &Parts) -> Result<Json> {
        if self.take("}") {
            return Ok(Json::Object(Object::default()));
        }
        let mut members = List::new();
        loop {
            self.name_begins()?;
            let quote = self.at;
            let escaped = self.skip_string()?;
            let needs = self.of_member(parts, quote, escaped);
            // The name is read before its value, so that errors come in the order of the text.
            let name = match needs {
                Some(_) => Some(self.read_again(quote, Self::string)?),
                None => None,
            };
            self.colon()?;
            match (name, needs) {
                (Some(name), Some(needs)) => {
                    let value = self.select(needs)?;
                    members.push((name, value), self.budget)?;
                }
                _ => {
                    self.skip()?;
                }
            }
            if !self.another(b'}')? {
                let members = members.finish(self.budget)?;
                return Ok(Json::Object(Object::charged(members, self.budget)?));
            }
        }
    }

    /// Returns what is looked at in the member whose name was just skipped.
    fn of_member<'p>(
        &mut self,
        parts: &'p Parts,
        quote: usize,
        escaped: bool,
    ) -> Option<&'p Needs> {
        if !escaped {
            return parts.of_member(&self.bytes[quote + 1..self.at - 1]);
        }
        // A character takes at most six bytes in the text. A longer name is none of those.
        let longest = parts.longest_name();
        if self.at - quote - 2 > 6 * longest {
            return None;
        }
        let mut name = Vec::new();
        let behind = std::mem::replace(&mut self.at, quote);
        let _read_before = self.characters(&mut name);
        self.at = behind;
        parts.of_member(&name)
    }

    /// Goes back to `start`, reads there, and returns to the place before.
    fn read_again<T>(
        &mut self,
        start: usize,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let here = std::mem::replace(&mut self.at, start);
        let value = read(self)?;
        self.at = here;
        Ok(value)
    }

    /// Reads the elements at these indices. The array ends behind the last of them.
    fn select_first(&mut self, places: &[(usize, Needs)]) -> Result<Json> {
        let last = farthest(places);
        let mut elements = List::new();
        let mut index = 0;
        if self.take("]") {
            return Ok(Json::Array(Vec::new()));
        }
        loop {
            if index <= last {
                let element = self.select(at(places, index))?;
                elements.push(element, self.budget)?;
            } else {
                self.skip()?;
            }
            index += 1;
            if !self.another(b']')? {
                return Ok(Json::Array(elements.finish(self.budget)?));
            }
        }
    }

    /// Reads the elements at these distances from the end. The array begins with the farthest of them.
    fn select_last(&mut self, places: &[(usize, Needs)]) -> Result<Json> {
        let mut starts = [0; WINDOW];
        let mut length = 0;
        if self.take("]") {
            return Ok(Json::Array(Vec::new()));
        }
        loop {
            starts[length % WINDOW] = self.at;
            self.skip()?;
            length += 1;
            if !self.another(b']')? {
                break;
            }
        }
        let kept = farthest(places).min(length);
        let mut elements = List::new();
        for distance in (1..=kept).rev() {
            let start = starts[(length - distance) % WINDOW];
            let element = self.read_again(start, |reader| reader.select(at(places, distance)))?;
            elements.push(element, self.budget)?;
        }
        Ok(Json::Array(elements.finish(self.budget)?))
    }

    fn select_each(&mut self, needs: &Needs) -> Result<Json> {
        if self.take("]") {
            return Ok(Json::Array(Vec::new()));
        }
        let mut elements = List::new();
        loop {
            let element = self.select(needs)?;
            elements.push(element, self.budget)?;
            if !self.another(b']')? {
                return Ok(Json::Array(elements.finish(self.budget)?));
            }
        }
    }
}
