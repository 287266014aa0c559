//! Limits the memory and the work that one event may cost.
//!
//! An event can be hostile. A value of one byte in the text takes 24 bytes in memory, and a function of an expression can
//! make a large value from a small one. So each allocation whose size depends on the event is charged before it is made.

/// The limit is the function's memory divided by this number. The rest is for the process, the text of the event, its typed
/// value and the handler.
const SHARE: usize = 4;
const MIB: usize = 1024 * 1024;
/// The smallest limit: what a function of 128 MB, the smallest, can spare.
const SMALLEST_LIMIT: usize = 32 * MIB;
/// The largest limit: more than an event of 6 MB needs, unless it was built to need more.
const LARGEST_LIMIT: usize = 256 * MIB;
/// The limit if the function's memory is not known.
const DEFAULT_LIMIT: usize = 64 * MIB;
/// The steps that one expression may take. A step is about one node visited or one byte handled.
const MAX_WORK: usize = 256 * MIB;

/// The limit that was exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BudgetError {
    Memory,
    Work,
}

type Result<T> = std::result::Result<T, BudgetError>;

/// The bytes and the steps that are left.
#[derive(Clone)]
pub(crate) struct Budget {
    limit: usize,
    left: usize,
    work: usize,
}

/// Returns the limit in bytes for one event, in a function with this memory in MiB.
pub(crate) fn limit_for(function_memory: Option<usize>) -> usize {
    function_memory.map_or(DEFAULT_LIMIT, |memory| {
        (memory.saturating_mul(MIB) / SHARE).clamp(SMALLEST_LIMIT, LARGEST_LIMIT)
    })
}

/// Returns how many bytes an allocation of this size takes, with what the allocator adds to it.
pub(crate) fn heap(bytes: usize) -> usize {
    const HEADER: usize = 8;
    const SMALLEST_BLOCK: usize = 32;
    if bytes == 0 {
        return 0;
    }
    bytes
        .saturating_add(HEADER)
        .checked_next_multiple_of(16)
        .unwrap_or(usize::MAX)
        .max(SMALLEST_BLOCK)
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            left: limit,
            work: MAX_WORK,
        }
    }

    /// Returns the budget of one evaluation that belongs to no call.
    pub(crate) fn of_one_evaluation() -> Self {
        Self::new(LARGEST_LIMIT)
    }

    /// Returns a budget without a limit of memory, for text that comes from the program itself.
    pub(crate) fn unbounded() -> Self {
        Self::new(usize::MAX)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the bytes that are charged.
    #[cfg(test)]
    pub(crate) fn charged(&self) -> usize {
        self.limit - self.left
    }

    /// Returns the steps that were taken.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn worked(&self) -> usize {
        MAX_WORK - self.work
    }

    /// Gives the next expression all its steps.
    pub(crate) fn renew_work(&mut self) {
        self.work = MAX_WORK;
    }

    /// Counts these steps.
    pub(crate) fn work(&mut self, steps: usize) -> Result<()> {
        self.work = self.work.checked_sub(steps).ok_or(BudgetError::Work)?;
        Ok(())
    }

    /// Charges one allocation of this size.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<()> {
        self.charge(heap(bytes))
    }

    /// Charges a sum of [`heap`] sizes.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or(BudgetError::Memory)?;
        Ok(())
    }

    /// Gives back one charged allocation of this size.
    pub(crate) fn free(&mut self, bytes: usize) {
        self.left = self.left.saturating_add(heap(bytes)).min(self.limit);
    }

    /// Returns true if there is room for an allocation of this size.
    pub(crate) fn holds(&self, bytes: usize) -> bool {
        heap(bytes) <= self.left
    }

    /// Appends an item. While the list moves to a larger block, both blocks are charged.
    pub(crate) fn push<T>(&mut self, list: &mut Vec<T>, item: T) -> Result<()> {
        self.reserve(list, 1)?;
        list.push(item);
        Ok(())
    }

    /// Makes room for `additional` items. If the list must grow, its capacity is at least doubled.
    pub(crate) fn reserve<T>(&mut self, list: &mut Vec<T>, additional: usize) -> Result<()> {
        let (length, capacity) = (list.len(), list.capacity());
        if capacity - length >= additional {
            return Ok(());
        }
        let wanted = length
            .saturating_add(additional)
            .max(capacity.saturating_mul(2));
        self.allocate(bytes_of::<T>(wanted))?;
        list.reserve_exact(wanted - length);
        self.free(bytes_of::<T>(capacity));
        Ok(())
    }

    /// Returns an empty list with room for `capacity` items.
    pub(crate) fn list<T>(&mut self, capacity: usize) -> Result<Vec<T>> {
        self.allocate(bytes_of::<T>(capacity))?;
        Ok(Vec::with_capacity(capacity))
    }
}

fn bytes_of<T>(items: usize) -> usize {
    items.saturating_mul(size_of::<T>())
}

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
    pub(crate) fn push(&mut self, item: T, budget: &mut Budget) -> Result<()> {
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
    pub(crate) fn finish(self, budget: &mut Budget) -> Result<Vec<T>> {
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
    fn the_limit_is_a_quarter_of_the_memory_between_the_smallest_and_the_largest_limit() {
        for (memory, limit) in [
            (None, 64),
            (Some(0), 32),
            (Some(128), 32),
            (Some(512), 128),
            (Some(10_240), 256),
            (Some(usize::MAX), 256),
        ] {
            assert_eq!(limit_for(memory), limit * 1_048_576, "{memory:?}");
        }
    }

    #[test]
    fn a_growing_list_is_charged_for_two_blocks_and_then_for_one() {
        let mut budget = Budget::new(heap(64) + heap(32));
        let mut list = budget.list(4).unwrap();
        let pushed = (0..9_u64).try_for_each(|item| budget.push(&mut list, item));
        assert_eq!(pushed, Err(BudgetError::Memory));
        assert_eq!((list.len(), budget.left), (8, heap(32)));
    }

    #[test]
    fn an_allocation_takes_a_header_and_a_multiple_of_sixteen_bytes() {
        for (bytes, taken) in [(0, 0), (1, 32), (24, 32), (25, 48), (40, 48), (41, 64)] {
            assert_eq!(heap(bytes), taken, "{bytes}");
        }
        assert_eq!(heap(usize::MAX), usize::MAX);
    }

    #[test]
    fn an_evaluation_may_take_the_largest_limit() {
        assert_eq!(Budget::of_one_evaluation().limit(), 268_435_456);
        assert!(Budget::unbounded().holds(usize::MAX - 15));
    }

    #[test]
    fn charges_end_at_the_limit_and_are_given_back() {
        let mut budget = Budget::new(100);
        assert_eq!(budget.limit(), 100);
        assert!(budget.holds(88) && !budget.holds(89));
        assert_eq!(budget.charge(101), Err(BudgetError::Memory));
        assert_eq!(budget.charge(60), Ok(()));
        assert_eq!(budget.charged(), 60);
        assert_eq!(budget.allocate(24), Ok(()));
        assert_eq!(budget.charged(), 60 + 32);
        budget.free(24);
        assert_eq!(budget.charged(), 60);
        budget.free(100);
        assert_eq!(budget.charged(), 0, "no more than was charged");
    }

    #[test]
    fn steps_end_and_are_renewed_for_the_next_expression() {
        let mut budget = Budget::new(0);
        assert_eq!(budget.work(268_435_455), Ok(()));
        assert_eq!(budget.worked(), 268_435_455);
        assert_eq!(budget.work(2), Err(BudgetError::Work));
        assert_eq!(budget.work(1), Ok(()));
        assert_eq!(budget.work(1), Err(BudgetError::Work));
        budget.renew_work();
        assert_eq!(budget.work(1), Ok(()));
        assert_eq!(budget.worked(), 1);
    }

    #[test]
    fn a_list_is_charged_for_its_room_and_a_full_one_grows_at_least_twofold() {
        let mut budget = Budget::new(10_000);
        let mut list: Vec<u64> = budget.list(4).unwrap();
        assert_eq!((list.capacity(), budget.charged()), (4, heap(32)));
        list.extend([1, 2]);
        budget.reserve(&mut list, 2).unwrap();
        assert_eq!((list.capacity(), budget.charged()), (4, heap(32)));
        budget.reserve(&mut list, 3).unwrap();
        assert_eq!((list.capacity(), budget.charged()), (8, heap(64)));
        budget.reserve(&mut list, 100).unwrap();
        assert_eq!((list.capacity(), budget.charged()), (102, heap(816)));
        assert!(budget.list::<u64>(2000).is_err());
    }

    #[test]
    fn a_short_list_has_no_spare_room_and_a_long_one_at_most_as_much_as_its_items() {
        let rooms = [(0, 0), (1, 1), (8, 8), (9, 16), (16, 16), (17, 32)];
        for (items, room) in rooms.into_iter().chain([(1000, 1024)]) {
            let mut budget = Budget::new(100_000);
            let mut list = List::new();
            for item in 0..items {
                list.push(item, &mut budget).unwrap();
            }
            let list: Vec<u64> = list.finish(&mut budget).unwrap();
            assert!(list.iter().copied().eq(0..items));
            assert_eq!(list.capacity(), room, "{items}");
            assert_eq!(budget.charged(), heap(8 * room), "{items}");
        }
    }

    #[test]
    fn a_list_beyond_the_budget_is_refused_before_it_is_allocated() {
        let mut budget = Budget::new(100);
        let mut list = List::new();
        let pushed = (0..100_u64).try_for_each(|item| list.push(item, &mut budget));
        assert_eq!(pushed, Err(BudgetError::Memory));
        assert_eq!(list.many.capacity(), 0);
    }
}
