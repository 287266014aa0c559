//! What an expression looks at in a value.

use crate::key::Text;

/// What an expression looks at in a value. The rest may be left out, and its result stays the same.
///
/// The type of a value is always kept, and so are null, true and false.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Needs {
    /// Only the type.
    Kind,
    /// Members of an object, elements of an array. Of other values only the type.
    Parts(Box<Parts>),
    /// The whole value.
    All,
}

/// The members and elements that an expression looks at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts {
    /// Each name once, sorted.
    members: Vec<(Text, Needs)>,
    /// The names of whole members whose names may be in another case.
    headers: Vec<Text>,
    pub(super) elements: Elements,
}

/// The elements of an array that an expression looks at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Elements {
    #[default]
    None,
    /// Those at these indices, sorted.
    First(Vec<(usize, Needs)>),
    /// Those at these distances from the end, sorted; 1 is the last.
    Last(Vec<(usize, Needs)>),
    /// Each of them.
    Each(Needs),
}

/// Up to this many names are compared one by one.
const FEW: usize = 8;
/// The farthest place from the end that is found while reading: the reader notes the places of this many elements.
pub(super) const WINDOW: usize = 16;

impl Needs {
    /// Looks at a member of an object.
    pub(crate) fn member(name: Text, needs: Self) -> Self {
        Self::parts(Parts {
            members: vec![(name, needs)],
            ..Parts::default()
        })
    }

    /// Looks at the members of this name in any case.
    pub(crate) fn header(name: Text) -> Self {
        Self::parts(Parts {
            headers: vec![name],
            ..Parts::default()
        })
    }

    /// Looks at the element at an index, or at a distance from the end if the index is negative.
    pub(crate) fn element(index: i64, needs: Self) -> Self {
        let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        Self::parts(Parts {
            elements: if index >= 0 {
                Elements::First(vec![(distance, needs)])
            } else if distance <= WINDOW {
                Elements::Last(vec![(distance, needs)])
            } else {
                Elements::Each(needs)
            },
            ..Parts::default()
        })
    }

    /// Looks at the elements at these indices.
    pub(crate) fn elements_at(indices: impl Iterator<Item = usize>, needs: &Self) -> Self {
        Self::parts(Parts {
            elements: Elements::First(indices.map(|index| (index, needs.clone())).collect()),
            ..Parts::default()
        })
    }

    /// Looks at each element of an array.
    pub(crate) fn each(needs: Self) -> Self {
        Self::parts(Parts {
            elements: Elements::Each(needs),
            ..Parts::default()
        })
    }

    fn parts(parts: Parts) -> Self {
        Self::Parts(Box::new(parts))
    }

    /// Returns what is looked at in an element of the array, whichever it is.
    pub(crate) fn of_elements(&self) -> Self {
        match self {
            Self::Kind => Self::Kind,
            Self::All => Self::All,
            Self::Parts(parts) => parts.elements.of_any(),
        }
    }

    /// Returns how many needs these are, with those inside.
    pub(crate) fn count(&self) -> usize {
        let Self::Parts(parts) = self else {
            return 1;
        };
        let members: usize = parts.members.iter().map(|(_, needs)| needs.count()).sum();
        let elements = match &parts.elements {
            Elements::None => 0,
            Elements::First(places) | Elements::Last(places) => {
                places.iter().map(|(_, needs)| needs.count()).sum()
            }
            Elements::Each(needs) => needs.count(),
        };
        1 + members + parts.headers.len() + elements
    }

    /// Looks at all that one of the two looks at.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Kind, needs) | (needs, Self::Kind) => needs,
            (Self::Parts(one), Self::Parts(other)) => Self::parts(one.and(*other)),
        }
    }
}

impl Parts {
    fn and(self, other: Self) -> Self {
        let mut headers = self.headers;
        headers.extend(other.headers);
        headers.sort_unstable();
        headers.dedup();
        Self {
            members: joined(self.members, other.members),
            headers,
            elements: self.elements.and(other.elements),
        }
    }

    /// Returns what is looked at in the member with this name; `None` if it is left out.
    pub(super) fn of_member(&self, name: &[u8]) -> Option<&Needs> {
        let same = |header: &Text| header.as_bytes().eq_ignore_ascii_case(name);
        if self.headers.iter().any(same) {
            return Some(&Needs::All);
        }
        let place = if self.members.len() <= FEW {
            self.members
                .iter()
                .position(|(own, _)| own.as_bytes() == name)?
        } else {
            self.members
                .binary_search_by(|(own, _)| own.as_bytes().cmp(name))
                .ok()?
        };
        self.members.get(place).map(|(_, needs)| needs)
    }

    /// Returns true if members of objects are looked at.
    pub(super) fn has_members(&self) -> bool {
        !self.members.is_empty() || !self.headers.is_empty()
    }

    /// Returns the length of the longest name.
    pub(super) fn longest_name(&self) -> usize {
        let names = self.members.iter().map(|(name, _)| name);
        let lengths = names.chain(&self.headers).map(|name| name.as_bytes().len());
        lengths.max().unwrap_or(0)
    }
}

impl Elements {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, elements) | (elements, Self::None) => elements,
            (Self::First(one), Self::First(other)) => Self::First(joined(one, other)),
            (Self::Last(one), Self::Last(other)) => Self::Last(joined(one, other)),
            // Places from both ends need the length of the array.
            (one, other) => Self::Each(one.of_any().and(other.of_any())),
        }
    }

    fn of_any(&self) -> Needs {
        match self {
            Self::None => Needs::Kind,
            Self::First(places) | Self::Last(places) => {
                let needs = places.iter().map(|(_, needs)| needs.clone());
                needs.fold(Needs::Kind, Needs::and)
            }
            Self::Each(needs) => needs.clone(),
        }
    }
}

/// Joins two lists: each key once, sorted.
fn joined<K: Ord>(one: Vec<(K, Needs)>, other: Vec<(K, Needs)>) -> Vec<(K, Needs)> {
    let mut all = one;
    all.extend(other);
    // The order of equal keys does not matter: their needs are joined.
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut joined: Vec<(K, Needs)> = Vec::with_capacity(all.len());
    for (key, needs) in all {
        match joined.last_mut() {
            Some((last, joint)) if *last == key => {
                *joint = std::mem::replace(joint, Needs::Kind).and(needs);
            }
            _ => joined.push((key, needs)),
        }
    }
    joined
}

/// Returns what is looked at in the element at this place of a sorted list.
pub(super) fn at(places: &[(usize, Needs)], place: usize) -> &Needs {
    places
        .binary_search_by_key(&place, |(place, _)| *place)
        .ok()
        .and_then(|found| places.get(found))
        .map_or(&Needs::Kind, |(_, needs)| needs)
}

/// Returns the last place of a sorted list.
pub(super) fn farthest(places: &[(usize, Needs)]) -> usize {
    places.last().map_or(0, |(place, _)| *place)
}
