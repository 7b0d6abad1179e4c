//! Which locals are live where a loop begins.
//!
//! Compilers keep a value that they use twice in a local, and assign it just before. Such a local is dead where a loop
//! begins and at the function's beginning. If it were saved there all the same, ptxas would carry it through every round,
//! and hashing took a twentieth longer. Full liveness of all locals needs a second pass over the function. This analysis
//! needs none: it finds the locals that are read only after the same stretch of code, one without a label, has assigned
//! them.

/// What becomes of a local, or of a quarter of one that is a vector.
#[derive(Clone, Copy, Default)]
struct Use {
    read: bool,
    /// It is read where something else may have assigned it than the same stretch.
    live: bool,
    /// The stretch that has assigned it last, or 0.
    assigned: u32,
}

/// What becomes of each part of the locals, as far as the function is translated.
pub(crate) struct Uses {
    parts: Vec<Use>,
    /// The number of the stretch at hand, from 1.
    stretch: u32,
}

impl Default for Uses {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            stretch: 1,
        }
    }
}

impl Uses {
    /// Declares parts up to this number.
    pub(crate) fn declare(&mut self, parts: usize) {
        self.parts.resize(parts, Use::default());
    }

    /// Control may come here from elsewhere.
    pub(crate) fn label(&mut self) {
        self.stretch += 1;
    }

    pub(crate) fn read(&mut self, part: u32) {
        let part = &mut self.parts[part as usize];
        part.read = true;
        part.live |= part.assigned != self.stretch;
    }

    pub(crate) fn assign(&mut self, part: u32) {
        self.parts[part as usize].assigned = self.stretch;
    }

    /// Whether anything reads it.
    pub(crate) fn is_read(&self, part: usize) -> bool {
        self.parts[part].read
    }

    /// Whether it may be live where a loop or the function begins.
    pub(crate) fn is_live(&self, part: usize) -> bool {
        self.parts[part].live
    }
}
