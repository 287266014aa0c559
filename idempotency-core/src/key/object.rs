//! The members of a JSON object: kept in the order of the text, found by name.

use std::fmt;

use super::budget::{Budget, BudgetError, heap};
use super::{Json, Text};

/// The members of a JSON object, in the order of the text. Each name occurs once.
///
/// If the text has several members with one name, the object has the last value, at the place of the first.
// One pointer: an object is no larger than other values, and an empty one takes no memory.
#[derive(Clone, Default)]
pub struct Object(Option<Box<Members>>);

#[derive(Clone)]
struct Members {
    entries: Vec<(Text, Json)>,
    /// The indices of the entries in the order of their names; empty if the text has at most [`FEW`] members.
    sorted: Box<[u32]>,
}

/// Up to this many members, a name is found by comparing it with each.
const FEW: usize = 8;

impl Object {
    /// Returns an object of these members. Several may have the same name.
    pub(crate) fn from_entries(mut entries: Vec<(Text, Json)>) -> Self {
        if entries.is_empty() {
            return Self(None);
        }
        let mut sorted = Box::default();
        if entries.len() <= FEW {
            join_few(&mut entries);
        } else {
            let mut places = by_name(&entries);
            if join_many(&mut entries, &places) {
                drop(places);
                places = by_name(&entries);
            }
            sorted = places;
        }
        Self(Some(Box::new(Members { entries, sorted })))
    }

    /// Does what [`from_entries`](Self::from_entries) does, for a list that is already charged: charges the rest.
    pub(crate) fn charged(
        entries: Vec<(Text, Json)>,
        budget: &mut Budget,
    ) -> Result<Self, BudgetError> {
        budget.charge(overhead(entries.len()))?;
        Ok(Self::from_entries(entries))
    }

    /// Returns how many bytes a copy takes on the heap.
    pub(super) fn heap(&self) -> usize {
        let each = |(name, value): &(Text, Json)| heap(name.as_bytes().len()) + value.heap();
        let entries = self.entries();
        overhead(entries.len())
            + heap(size_of_val(entries))
            + entries.iter().map(each).sum::<usize>()
    }

    fn entries(&self) -> &[(Text, Json)] {
        self.0.as_ref().map_or(&[], |members| &members.entries)
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Returns the value of the member with this name. The name is given as the bytes of a [`Text`].
    pub fn get(&self, name: &[u8]) -> Option<&Json> {
        let place = self.place(name)?;
        self.entries().get(place).map(|(_, value)| value)
    }

    fn place(&self, name: &[u8]) -> Option<usize> {
        let Members { entries, sorted } = &**self.0.as_ref()?;
        if sorted.is_empty() {
            return entries.iter().position(|(own, _)| own.as_bytes() == name);
        }
        let found =
            sorted.binary_search_by(|&place| entries[place as usize].0.as_bytes().cmp(name));
        found.ok().map(|at| sorted[at] as usize)
    }

    /// Removes a member and returns its value. The other members keep their order.
    pub fn remove(&mut self, name: &[u8]) -> Option<Json> {
        let place = self.place(name)?;
        let mut entries = std::mem::take(self).into_entries();
        let (_, value) = entries.remove(place);
        *self = Self::from_entries(entries);
        Some(value)
    }

    /// Returns the members in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Json)> {
        self.entries().iter().map(|(name, value)| (name, value))
    }

    /// Returns the names in the order of the text.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.entries().iter().map(|(name, _)| name)
    }

    /// Returns the values in the order of the text.
    pub fn values(&self) -> impl Iterator<Item = &Json> {
        self.entries().iter().map(|(_, value)| value)
    }

    /// Returns the members as a list, in the order of the text.
    pub(crate) fn into_entries(self) -> Vec<(Text, Json)> {
        self.0.map_or_else(Vec::new, |members| members.entries)
    }

    /// Calls `show` with each member, in the order of the names.
    pub(crate) fn each_by_name(&self, mut show: impl FnMut(&Text, &Json)) {
        let Some(members) = &self.0 else {
            return;
        };
        let Members { entries, sorted } = &**members;
        let mut show = |place: usize| {
            let (name, value) = &entries[place];
            show(name, value);
        };
        if sorted.is_empty() {
            let few = few_by_name(entries);
            let few = &few[..entries.len()];
            few.iter().for_each(|&place| show(usize::from(place)));
        } else {
            sorted.iter().for_each(|&place| show(place as usize));
        }
    }
}

/// Returns the indices of up to [`FEW`] entries in the order of the names, which differ. It needs no block on the heap.
fn few_by_name(entries: &[(Text, Json)]) -> [u8; FEW] {
    let mut places = [0, 1, 2, 3, 4, 5, 6, 7];
    let name = |place: u8| &entries[usize::from(place)].0;
    places[..entries.len()].sort_unstable_by(|&a, &b| name(a).cmp(name(b)));
    places
}

/// Returns how many bytes an object takes besides its list of members: the index, and one mark for each member while names
/// are compared.
fn overhead(members: usize) -> usize {
    match members {
        0 => 0,
        1..=FEW => heap(size_of::<Members>()),
        many => heap(size_of::<Members>()) + heap(many * size_of::<u32>()) + heap(many),
    }
}

/// Returns the indices in the order of the names; of equal names, the first index comes first.
fn by_name(entries: &[(Text, Json)]) -> Box<[u32]> {
    let mut places: Box<[u32]> = (0..).take(entries.len()).collect();
    places.sort_unstable_by(|&a, &b| {
        let name = |place: u32| &entries[place as usize].0;
        name(a).cmp(name(b)).then(a.cmp(&b))
    });
    places
}

/// Joins members with equal names, for up to [`FEW`] members.
fn join_few(entries: &mut Vec<(Text, Json)>) {
    let mut at = 1;
    while let Some((name, _)) = entries.get(at) {
        match entries[..at]
            .iter()
            .position(|(earlier, _)| earlier == name)
        {
            Some(first) => entries[first].1 = entries.remove(at).1,
            None => at += 1,
        }
    }
}

/// Joins members with equal names. Returns true if there were any.
fn join_many(entries: &mut Vec<(Text, Json)>, places: &[u32]) -> bool {
    let mut kept = vec![true; entries.len()];
    // From behind, so that the last value moves to the first place.
    for pair in places.windows(2).rev() {
        let [first, second] = [pair[0], pair[1]].map(|place| place as usize);
        if entries[first].0 == entries[second].0 {
            kept[second] = false;
            entries[first].1 = std::mem::replace(&mut entries[second].1, Json::Null);
        }
    }
    let joined = kept.contains(&false);
    if joined {
        let mut kept = kept.into_iter();
        entries.retain(|_| kept.next() != Some(false));
    }
    joined
}

/// Compares the members; their order does not matter.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let same = |(name, value): (&Text, &Json)| other.get(name.as_bytes()) == Some(value);
        self.len() == other.len() && self.iter().all(same)
    }
}

impl FromIterator<(Text, Json)> for Object {
    fn from_iter<I: IntoIterator<Item = (Text, Json)>>(members: I) -> Self {
        Self::from_entries(members.into_iter().collect())
    }
}

/// Shows only the number of members, because names come from payloads.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} members)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(object: &Object) -> Vec<&str> {
        object.keys().filter_map(Text::as_str).collect()
    }

    /// Returns an object of `count` members, made of a text in which each name occurs twice.
    fn doubled(count: usize) -> Object {
        let value = |number: usize| Json::Int(i64::try_from(number).unwrap().into());
        (0..2 * count)
            .map(|number| (format!("{}", (number * 7) % count).into(), value(number)))
            .collect()
    }

    #[test]
    fn few_and_many_members_are_joined_found_and_ordered_in_the_same_way() {
        assert!(Object::default().is_empty());
        for count in [1, 2, 4, 5, 8, 9, 100, 1000] {
            let object = doubled(count);
            assert_eq!((object.len(), object.is_empty()), (count, false));
            let order = (0..count).map(|number| (number * 7) % count);
            assert_eq!(
                names(&object),
                order.map(|name| name.to_string()).collect::<Vec<_>>()
            );
            // The last value at the place of the first.
            for (number, (name, value)) in object.iter().enumerate() {
                assert_eq!(value.to_canonical(), (count + number).to_string());
                assert!(
                    object.get(name.as_bytes()) == Some(value),
                    "{count}: {number}"
                );
            }
            assert!(object.values().eq(object.iter().map(|(_, value)| value)));
            assert_eq!(object.get(b"none"), None);
            let mut seen = Vec::new();
            object.each_by_name(|name, _| seen.push(name.clone()));
            assert!(seen.is_sorted() && seen.len() == count);
            let members = object.0.as_ref().unwrap();
            // Only a text of many members has an index.
            let indexed = if 2 * count > FEW { count } else { 0 };
            assert_eq!(members.sorted.len(), indexed);
            assert_eq!(object.into_entries().len(), count);
        }
    }

    #[test]
    fn a_removed_member_is_not_found_and_the_other_members_keep_their_order() {
        let mut object = doubled(9);
        let mut names_left: Vec<_> = names(&object).into_iter().map(str::to_owned).collect();
        while let Some(name) = names_left.pop() {
            assert!(object.remove(name.as_bytes()).is_some());
            assert_eq!(object.remove(name.as_bytes()), None);
            assert_eq!(names(&object), names_left);
        }
        assert!(object.is_empty());
    }

    #[test]
    fn objects_with_the_same_members_are_equal_in_any_order() {
        let of = |text: &str| Json::parse(text).unwrap();
        assert!(of(r#"{"a":1,"b":2}"#) == of(r#"{"b":2,"a":1}"#));
        assert!(of(r#"{"a":1,"b":2}"#) != of(r#"{"a":1,"c":2}"#));
        assert!(of(r#"{"a":1}"#) != of(r#"{"a":1,"b":2}"#));
    }

    #[test]
    fn a_copy_takes_the_blocks_of_its_list_its_index_and_its_parts() {
        let members = heap(size_of::<Members>());
        for (text, blocks) in [
            ("{}", 0),
            (
                r#"{"a": "text", "b": null}"#,
                members + heap(2 * 40) + 2 * heap(1) + heap(4),
            ),
            (
                r#"{"10":1,"11":1,"12":1,"13":1,"14":1,"15":1,"16":1,"17":1,"18":1}"#,
                members + heap(9 * 4) + heap(9) + heap(9 * 40) + 9 * heap(2),
            ),
        ] {
            assert_eq!(Json::parse(text).unwrap().heap(), blocks, "{text}");
        }
        for (count, blocks) in [
            (0, 0),
            (1, members),
            (8, members),
            (9, members + heap(36) + heap(9)),
        ] {
            assert_eq!(overhead(count), blocks, "{count}");
        }
    }
}
