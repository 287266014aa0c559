//! The members of a JSON object: kept in the order of the text, found by name.

use std::fmt;

use super::budget::{Budget, Exhausted, heap};
use super::{Json, Text};

/// The members of a JSON object, in the order of the text. Each name occurs once.
///
/// If the text has several members with one name, the object has the last value, at the place of the first.
///
/// # Examples
///
/// ```
/// use idempotency_core::key::{Json, Object};
///
/// let object: Object = [("b".into(), Json::Null), ("a".into(), Json::Bool(true))].into_iter().collect();
/// assert_eq!(object.len(), 2);
/// assert_eq!(object.get(b"a"), Some(&Json::Bool(true)));
/// assert_eq!(object.keys().next().and_then(|name| name.as_str()), Some("b"));
/// ```
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
    ) -> Result<Self, Exhausted> {
        budget.charge(overhead(entries.len()))?;
        Ok(Self::from_entries(entries))
    }

    /// Returns how many bytes a copy takes on the heap.
    pub(super) fn heap(&self) -> usize {
        let each = |(name, value): &(Text, Json)| name.heap() + value.heap();
        let entries = self.entries();
        overhead(entries.len())
            + heap(size_of_val(entries))
            + entries.iter().map(each).sum::<usize>()
    }

    fn entries(&self) -> &[(Text, Json)] {
        self.0.as_ref().map_or(&[], |members| &members.entries)
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Returns true if there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Returns the value of the member with this name. The name is given as the bytes of a [`Text`].
    #[must_use]
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
            few[..entries.len()]
                .iter()
                .for_each(|&place| show(usize::from(place)));
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
    let mut from = 0;
    while let Some(&first) = places.get(from) {
        let equal = places[from..]
            .iter()
            .take_while(|&&place| entries[place as usize].0 == entries[first as usize].0);
        let until = from + equal.count();
        for &place in &places[from + 1..until] {
            kept[place as usize] = false;
            entries[first as usize].1 =
                std::mem::replace(&mut entries[place as usize].1, Json::Null);
        }
        from = until;
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

/// Tests of objects.
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
        for count in [1, 2, 4, 5, 8, 9, 100, 1000] {
            if count % 7 == 0 {
                continue;
            }
            let object = doubled(count);
            assert_eq!(object.len(), count);
            let ordered: Vec<_> = (0..count)
                .map(|number| ((number * 7) % count).to_string())
                .collect();
            assert_eq!(names(&object), ordered);
            for number in 0..count {
                let name = ((number * 7) % count).to_string();
                let last = Json::Int(i64::try_from(count + number).unwrap().into());
                assert_eq!(object.get(name.as_bytes()), Some(&last), "{count}: {name}");
            }
            assert_eq!(object.get(b"none"), None);
            let mut seen = Vec::new();
            object.each_by_name(|name, _| seen.push(name.clone()));
            assert!(seen.is_sorted() && seen.len() == count);
        }
    }

    #[test]
    fn a_removed_member_is_not_found_and_the_other_members_keep_their_order() {
        let mut object = doubled(9);
        let before: Vec<_> = names(&object).into_iter().map(str::to_owned).collect();
        assert!(object.remove(b"3").is_some());
        assert_eq!(object.remove(b"3"), None);
        let after: Vec<_> = before.into_iter().filter(|name| name != "3").collect();
        assert_eq!(names(&object), after);
        assert!(object.get(b"4").is_some());
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
        assert_eq!(Object::default().heap(), 0);
        let few: Object = [
            ("a".into(), Json::Str("text".into())),
            ("b".into(), Json::Null),
        ]
        .into_iter()
        .collect();
        assert_eq!(few.heap(), members + heap(2 * 40) + 2 * heap(1) + heap(4));
        let many: Object = (0..100)
            .map(|number| (format!("{number:02}").into(), Json::Null))
            .collect();
        let index = heap(100 * 4) + heap(100);
        assert_eq!(
            many.heap(),
            members + index + heap(100 * 40) + 100 * heap(2)
        );
        for (count, overhead_of) in [
            (0, 0),
            (1, members),
            (8, members),
            (9, members + heap(36) + heap(9)),
        ] {
            assert_eq!(overhead(count), overhead_of, "{count}");
        }
    }

    #[test]
    fn only_many_members_have_an_index() {
        for (count, indexed) in [(1, 0), (8, 0), (9, 9_usize)] {
            let object: Object = (0..count)
                .map(|number| (number.to_string().into(), Json::Null))
                .collect();
            assert_eq!(object.0.unwrap().sorted.len(), indexed, "{count}");
        }
    }

    #[test]
    fn names_values_and_members_are_in_the_order_of_the_text() {
        let object: Object = [("b", 1), ("a", 2)]
            .into_iter()
            .map(|(name, value)| (name.into(), Json::Int(value.into())))
            .collect();
        assert!(!object.is_empty() && Object::default().is_empty());
        assert_eq!(Object::default().len(), 0);
        let values: Vec<_> = object.values().map(Json::to_canonical).collect();
        assert_eq!(
            (names(&object), values),
            (vec!["b", "a"], vec!["1".to_owned(), "2".to_owned()])
        );
        let members: Vec<_> = object
            .iter()
            .map(|(name, value)| format!("{}{}", name.as_str().unwrap(), value.to_canonical()))
            .collect();
        assert_eq!(members, ["b1", "a2"]);
        assert_eq!(object.into_entries().len(), 2);
        let mut last: Object = [("a".into(), Json::Bool(true))].into_iter().collect();
        assert_eq!(last.remove(b"a"), Some(Json::Bool(true)));
        assert!(last.is_empty());
    }
}
