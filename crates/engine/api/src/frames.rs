//! The stack frames of an image's functions.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The stack frames of an image's functions, by name; none where nothing is linked. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames(Arc<[(Box<str>, u32)]>);

impl Frames {
    /// Each function's name, and the bytes of its frame.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(name, bytes)| (&**name, *bytes))
    }

    /// These and more frames. A function that is in both has the sum: one of the two stands for the other, and calls it.
    #[must_use]
    pub fn and<'n>(&self, more: impl Iterator<Item = (&'n str, u32)>) -> Self {
        let mut all: BTreeMap<&str, u32> = self.iter().collect();
        for (name, bytes) in more {
            *all.entry(name).or_default() += bytes;
        }
        let all = all.into_iter();
        all.map(|(name, bytes)| (name.into(), bytes)).collect()
    }

    /// The bytes of the largest frame; 0 if there is none.
    pub fn largest(&self) -> u32 {
        self.largest_of(|_| true)
    }

    /// The bytes of the largest frame among the functions whose name `choose` accepts; 0 if there is none.
    pub fn largest_of(&self, choose: impl Fn(&str) -> bool) -> u32 {
        let chosen = self.0.iter().filter(|(name, _)| choose(name));
        chosen.map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }
}

impl FromIterator<(Box<str>, u32)> for Frames {
    fn from_iter<I: IntoIterator<Item = (Box<str>, u32)>>(frames: I) -> Self {
        Self(frames.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_frame_of_the_chosen_functions_counts() {
        let frames = [("engine", 16), ("m0_f1", 96), ("m1_f1", 400)];
        let frames: Frames = frames
            .map(|(name, bytes)| (name.into(), bytes))
            .into_iter()
            .collect();
        assert_eq!(frames.largest(), 400);
        assert_eq!(frames.largest_of(|name| !name.starts_with("m1_")), 96);
        assert_eq!(Frames::default().largest(), 0);
    }

    #[test]
    fn a_function_and_what_stands_for_it_are_both_on_the_stack() {
        let frames: Frames = [("f1", 16), ("f2", 32)]
            .map(|(name, bytes)| (name.into(), bytes))
            .into_iter()
            .collect();
        let all = frames.and([("f2", 100), ("f3", 8)].into_iter());
        let all: Vec<_> = all.iter().collect();
        assert_eq!(all, [("f1", 16), ("f2", 132), ("f3", 8)]);
    }
}
