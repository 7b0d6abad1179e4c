//! A list that grows while others read it.

use std::ops::Index;
use std::sync::OnceLock;

/// A list that only ever gets longer, up to a limit. Readers take no lock, and what they have found stays where it
/// is.
pub(crate) struct Growing<T> {
    slots: Box<[OnceLock<T>]>,
}

impl<T> Growing<T> {
    /// These, and room for as many as `limit` in all.
    pub(crate) fn new(first: Vec<T>, limit: usize) -> Self {
        let mut slots: Vec<_> = first.into_iter().map(OnceLock::from).collect();
        let limit = limit.max(slots.len());
        slots.resize_with(limit, OnceLock::new);
        Self {
            slots: slots.into(),
        }
    }

    /// Adds one behind the others; gives it back if there is no room. Only one may be added at a time.
    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        match self.slots.iter().find(|slot| slot.get().is_none()) {
            Some(slot) => slot.set(value),
            None => Err(value),
        }
    }

    /// The one with this number, if it has been added.
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.slots.get(at)?.get()
    }

    /// Those that are there now.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map_while(OnceLock::get)
    }

    /// How many there are now.
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is room for another.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < self.slots.len()
    }
}

impl<T> Index<usize> for Growing<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        self.get(at).expect("it has been added")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_up_to_its_limit_and_keeps_what_it_has() {
        let list = Growing::new(vec!['a'], 3);
        let first: *const char = &list[0];
        assert_eq!(list.push('b'), Ok(()));
        assert_eq!(list.push('c'), Ok(()));
        assert!(!list.has_room());
        assert_eq!(list.push('d'), Err('d'));
        assert_eq!(list.iter().copied().collect::<String>(), "abc");
        assert_eq!((list.len(), list[2]), (3, 'c'));
        assert!(std::ptr::eq(first, &list[0]));
    }
}
