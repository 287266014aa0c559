//! A list that grows while an event is read and wastes no memory while it is short.

use super::budget::{Budget, Exhausted};

/// This many items are kept outside the heap.
const FEW: usize = 8;

/// A list whose length is not known in advance.
///
/// An event can hold a million short lists. If each list first took a block with spare room and then shrank it, the freed
/// rest would be too small for the next list. The allocator would keep these rests, and the process would take up to four
/// times the memory of its values. So the first items are kept inline, until a block of the right size can be allocated.
pub(crate) struct List<T> {
    few: [Option<T>; FEW],
    count: usize,
    many: Vec<T>,
}

impl<T> List<T> {
    /// Returns an empty list.
    pub(crate) fn new() -> Self {
        Self {
            few: [const { None }; FEW],
            count: 0,
            many: Vec::new(),
        }
    }

    /// Appends an item. While a long list moves to a larger block, both blocks are charged.
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

    /// Returns the items in a block. For a short list, the block has exactly their size.
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
    fn a_short_list_has_no_spare_room_and_a_long_one_at_most_as_much_as_its_items() {
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
    fn a_list_beyond_the_budget_is_refused_before_it_is_allocated() {
        let mut budget = Budget::new(100);
        let mut list = List::new();
        let pushed = (0..100_u64).try_for_each(|item| list.push(item, &mut budget));
        assert_eq!(pushed, Err(Exhausted::Memory));
        assert_eq!(list.many.capacity(), 0);
    }

    #[test]
    fn a_list_is_charged_for_its_block() {
        for (items, room) in [(0_u64, 0), (1, 1), (8, 8), (9, 16), (17, 32)] {
            let mut budget = Budget::new(10_000);
            let mut list = List::new();
            for item in 0..items {
                list.push(item, &mut budget).unwrap();
            }
            list.finish(&mut budget).unwrap();
            assert_eq!(
                budget.charged(),
                crate::key::budget::heap(8 * room),
                "{items}"
            );
        }
    }
}
