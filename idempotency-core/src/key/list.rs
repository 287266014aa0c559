//! Lists that grow while an event is read, without waste where they stay short.

use super::budget::{Budget, Exhausted};

/// So many items wait outside of the heap.
const FEW: usize = 8;

/// A list whose length is not known before its end.
///
/// An event can hold a million short lists. If each took a block with room for more and gave it back in the end, what
/// it gave back would be too small for the next one, and the allocator would keep it: a process takes up to four times
/// what its values do. So the first items wait here, until a block of their number can be made.
pub(crate) struct List<T> {
    few: [Option<T>; FEW],
    count: usize,
    many: Vec<T>,
}

impl<T> List<T> {
    pub(crate) fn new() -> Self {
        Self {
            few: [const { None }; FEW],
            count: 0,
            many: Vec::new(),
        }
    }

    /// Appends an item. While a long list moves, the old and the new block exist together; both are charged.
    pub(crate) fn push(&mut self, item: T, budget: &mut Budget) -> Result<(), Exhausted> {
        if let Some(place) = self.few.get_mut(self.count) {
            *place = Some(item);
            self.count += 1;
            return Ok(());
        }
        if self.many.is_empty() {
            budget.reserve(&mut self.many, 2 * FEW)?;
            self.many
                .extend(self.few.iter_mut().filter_map(Option::take));
        }
        budget.push(&mut self.many, item)
    }

    pub(crate) fn finish(self, budget: &mut Budget) -> Result<Vec<T>, Exhausted> {
        if !self.many.is_empty() {
            return Ok(self.many);
        }
        let mut list = budget.list(self.count)?;
        list.extend(self.few.into_iter().flatten());
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_list_takes_what_it_holds_and_a_long_one_up_to_twice_as_much() {
        for (items, room) in [
            (0, 0),
            (1, 1),
            (8, 8),
            (9, 16),
            (16, 16),
            (17, 32),
            (1000, 1024),
        ] {
            let mut budget = Budget::unbounded();
            let mut list = List::new();
            for item in 0..items {
                list.push(item, &mut budget).unwrap();
            }
            let list: Vec<i32> = list.finish(&mut budget).unwrap();
            assert!(list.iter().copied().eq(0..items));
            assert_eq!(list.capacity(), room, "{items}");
        }
    }

    #[test]
    fn a_list_beyond_the_budget_is_an_error_and_not_made() {
        let mut budget = Budget::new(100);
        let mut list = List::new();
        let pushed = (0..100_u64).try_for_each(|item| list.push(item, &mut budget));
        assert_eq!(pushed, Err(Exhausted::Memory));
        assert_eq!(list.many.capacity(), 0);
    }
}
