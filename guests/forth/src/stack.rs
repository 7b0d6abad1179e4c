//! A stack of cells.

use alloc::boxed::Box;
use alloc::vec;

/// Cells of either stack.
pub(crate) const SIZE: usize = 1024;

/// A stack that no instruction works on.
pub(crate) struct Kept {
    cells: Box<[i32; SIZE]>,
    depth: usize,
    top: i32,
}

impl Kept {
    pub(crate) fn new() -> Self {
        let cells = vec![0; SIZE].into_boxed_slice();
        Self {
            cells: cells.try_into().expect("there are as many cells"),
            depth: 0,
            top: 0,
        }
    }

    /// The stack to work on. What was done counts when its end is kept.
    #[inline(always)]
    pub(crate) fn lend(&mut self) -> Stack<'_> {
        Stack {
            cells: &mut self.cells,
            depth: self.depth,
            top: self.top,
        }
    }

    /// Takes back what [`Stack::end`] says.
    #[inline(always)]
    pub(crate) fn keep(&mut self, (depth, top): (usize, i32)) {
        (self.depth, self.top) = (depth, top);
    }

    pub(crate) fn clear(&mut self) {
        self.depth = 0;
    }
}

/// A stack whose depth and topmost cell are variables of who runs, and not in memory: an instruction that adds two
/// cells loads one and stores none. The cell below the top is in the place of that number, so the first place is
/// never looked at. Each method makes one comparison for its own check and for that of the place.
pub(crate) struct Stack<'m> {
    cells: &'m mut [i32; SIZE],
    depth: usize,
    top: i32,
}

impl Stack<'_> {
    #[inline(always)]
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// What is left when an instruction was the last.
    #[inline(always)]
    pub(crate) fn end(self) -> (usize, i32) {
        (self.depth, self.top)
    }

    /// The topmost cell.
    #[inline(always)]
    pub(crate) fn top(&mut self) -> Option<&mut i32> {
        (self.depth > 0).then_some(&mut self.top)
    }

    /// The cell so far below the top, at least one.
    #[inline(always)]
    pub(crate) fn below(&mut self, far: usize) -> Option<&mut i32> {
        let place = self.depth.wrapping_sub(far + 1);
        self.cells[1..].get_mut(place)
    }

    /// False if the stack is full.
    #[inline(always)]
    pub(crate) fn push(&mut self, cell: i32) -> bool {
        match self.cells.get_mut(self.depth) {
            Some(place) => *place = self.top,
            None => return false,
        }
        self.depth += 1;
        self.top = cell;
        true
    }

    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<i32> {
        let depth = self.depth.wrapping_sub(1);
        let cell = *self.cells.get(depth)?;
        self.depth = depth;
        Some(core::mem::replace(&mut self.top, cell))
    }

    /// The topmost cell and the one below it.
    #[inline(always)]
    pub(crate) fn pop_two(&mut self) -> Option<(i32, i32)> {
        let depth = self.depth.wrapping_sub(2);
        let second = *self.cells[1..].get(depth)?;
        let first = core::mem::replace(&mut self.top, self.cells[depth]);
        self.depth = depth;
        Some((first, second))
    }

    /// Replaces the two topmost cells, the upper one last, by one.
    #[inline(always)]
    pub(crate) fn combine(&mut self, f: impl FnOnce(i32, i32) -> i32) -> Option<()> {
        let second = *self.below(1)?;
        self.depth -= 1;
        self.top = f(second, self.top);
        Some(())
    }
}
