//! What one identification may take: memory, by its real size, and work.
//!
//! An event is hostile input. A value of one byte in the text takes 24 bytes in memory, and a function of an expression
//! can make much of little. So each allocation whose size depends on the event is charged before it is made.

/// The largest share of a function's memory that one identification may take. The rest is for the process, the event's
/// own text, its typed value and the handler.
const SHARE: usize = 4;
const MIB: usize = 1024 * 1024;
/// What the smallest function (128 MB) can spare.
const LEAST: usize = 32 * MIB;
/// More than any event of 6 MB needs, but for some that are made to need more.
const MOST: usize = 256 * MIB;
/// The limit where the function's memory is not known.
const UNKNOWN: usize = 64 * MIB;
/// How much one expression may do, about in nodes visited and bytes handled.
const WORK: usize = 256 * MIB;

/// What ran out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exhausted {
    Memory,
    Work,
}

type Result<T> = std::result::Result<T, Exhausted>;

/// The bytes and the work that are left.
pub(crate) struct Budget {
    limit: usize,
    left: usize,
    work: usize,
}

/// What was left at one moment: see [`Budget::restore`].
pub(crate) struct Mark {
    left: usize,
}

/// Returns how many bytes one identification may take in a function with this memory, in MiB.
pub(crate) fn limit_for(function_memory: Option<usize>) -> usize {
    function_memory.map_or(UNKNOWN, |memory| {
        (memory.saturating_mul(MIB) / SHARE).clamp(LEAST, MOST)
    })
}

/// Returns what an allocation of so many bytes takes, with what the allocator adds to it.
pub(crate) fn heap(bytes: usize) -> usize {
    const HEADER: usize = 8;
    const LEAST_BLOCK: usize = 32;
    if bytes == 0 {
        return 0;
    }
    bytes
        .saturating_add(HEADER)
        .checked_next_multiple_of(16)
        .unwrap_or(usize::MAX)
        .max(LEAST_BLOCK)
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            left: limit,
            work: WORK,
        }
    }

    /// The bound of a single evaluation outside an identification.
    pub(crate) fn of_one_evaluation() -> Self {
        Self::new(MOST)
    }

    /// No bound of memory: for text that the program itself holds.
    pub(crate) fn unbounded() -> Self {
        Self::new(usize::MAX)
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// How much work was done.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn worked(&self) -> usize {
        WORK - self.work
    }

    /// Each expression has all the work for itself.
    pub(crate) fn renew_work(&mut self) {
        self.work = WORK;
    }

    pub(crate) fn work(&mut self, steps: usize) -> Result<()> {
        self.work = self.work.checked_sub(steps).ok_or(Exhausted::Work)?;
        Ok(())
    }

    /// Charges an allocation of so many bytes.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<()> {
        self.charge(heap(bytes))
    }

    /// Charges what [`heap`] said of several allocations.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or(Exhausted::Memory)?;
        Ok(())
    }

    /// Gives back an allocation of so many bytes that was charged.
    pub(crate) fn free(&mut self, bytes: usize) {
        self.left = self.left.saturating_add(heap(bytes)).min(self.limit);
    }

    /// Returns true if an allocation of so many bytes is left.
    pub(crate) fn holds(&self, bytes: usize) -> bool {
        heap(bytes) <= self.left
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { left: self.left }
    }

    /// Gives back all that was charged since the mark: what was made since must be gone.
    pub(crate) fn restore(&mut self, mark: &Mark) {
        self.left = mark.left;
    }

    /// Appends an item. While a list moves, the old and the new block exist together; both are charged.
    pub(crate) fn push<T>(&mut self, list: &mut Vec<T>, item: T) -> Result<()> {
        self.reserve(list, 1)?;
        list.push(item);
        Ok(())
    }

    /// Makes room for more items, for twice as many as the list holds at least.
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

    /// A list with room for so many items.
    pub(crate) fn list<T>(&mut self, capacity: usize) -> Result<Vec<T>> {
        self.allocate(bytes_of::<T>(capacity))?;
        Ok(Vec::with_capacity(capacity))
    }
}

fn bytes_of<T>(items: usize) -> usize {
    items.saturating_mul(size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_quarter_of_the_memory_between_two_bounds() {
        for (memory, limit) in [
            (None, 64),
            (Some(0), 32),
            (Some(128), 32),
            (Some(512), 128),
            (Some(10_240), 256),
            (Some(usize::MAX), 256),
        ] {
            assert_eq!(limit_for(memory), limit * MIB, "{memory:?}");
        }
    }

    #[test]
    fn a_list_that_grows_is_charged_for_both_blocks_and_then_for_one() {
        let mut budget = Budget::new(heap(64) + heap(32));
        let mut list = Vec::new();
        budget.reserve(&mut list, 4).unwrap();
        for item in 0..8_u64 {
            budget.push(&mut list, item).unwrap();
        }
        assert_eq!(budget.left, heap(32));
        assert_eq!(budget.push(&mut list, 8), Err(Exhausted::Memory));
        assert_eq!(list.len(), 8);
    }
}
