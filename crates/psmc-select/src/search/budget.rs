//! When to stop.

/// Asked before each step of a search. A search that is told to stop answers with the best that it has so far.
///
/// Any closure is one: a caller with a clock looks at it, one that wants the same answer every time counts [`Steps`].
pub trait Budget {
    /// Whether there is time for so many steps more; a step is about the valuation of one selection.
    fn allows(&mut self, steps: u64) -> bool;
}

impl<F: FnMut(u64) -> bool> Budget for F {
    fn allows(&mut self, steps: u64) -> bool {
        self(steps)
    }
}

/// A number of steps.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    most: u64,
    spent: u64,
}

impl Steps {
    /// At most so many.
    pub fn new(most: u64) -> Self {
        Self { most, spent: 0 }
    }

    /// As many as it takes.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// How many it took.
    pub fn spent(&self) -> u64 {
        self.spent
    }
}

impl Budget for Steps {
    fn allows(&mut self, steps: u64) -> bool {
        let allowed = self.spent.saturating_add(steps) <= self.most;
        if allowed {
            self.spent += steps;
        }
        allowed
    }
}
