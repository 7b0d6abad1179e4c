//! The stack frames of an image's functions.

use std::sync::Arc;

/// The stack frames of an image's functions, by name; none where nothing is linked. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames(Arc<[(Box<str>, u32)]>);

impl Frames {
    /// Each function's name, and the bytes of its frame.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(name, bytes)| (&**name, *bytes))
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
}
