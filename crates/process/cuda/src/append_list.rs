//! A list that grows while other threads read it.

use std::ops::Index;
use std::sync::OnceLock;

/// A list that only gets longer, up to a limit. Readers take no lock, and references to its elements stay valid while it
/// grows.
pub(crate) struct AppendList<T> {
    slots: Box<[OnceLock<T>]>,
}

impl<T> AppendList<T> {
    /// These elements, and room for up to `limit` in all.
    pub(crate) fn new(first: Vec<T>, limit: usize) -> Self {
        let mut slots: Vec<_> = first.into_iter().map(OnceLock::from).collect();
        let limit = limit.max(slots.len());
        slots.resize_with(limit, OnceLock::new);
        Self {
            slots: slots.into(),
        }
    }

    /// Adds an element after the others; returns it if there is no room. Only one thread may add at a time.
    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        match self.slots.iter().find(|slot| slot.get().is_none()) {
            Some(slot) => slot.set(value),
            None => Err(value),
        }
    }

    /// The element with this number, if it has been added.
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.slots.get(at)?.get()
    }

    /// The elements that have been added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map_while(OnceLock::get)
    }

    /// The elements that have been added, in order.
    pub(crate) fn into_elements(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().map_while(OnceLock::into_inner)
    }

    /// How many elements have been added.
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is room for another element.
    pub(crate) fn has_room(&self) -> bool {
        self.len() < self.slots.len()
    }
}

impl<T> Index<usize> for AppendList<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        self.get(at).expect("the element has been added")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_in_place_while_the_list_grows_to_its_limit() {
        let list = AppendList::new(vec!['a'], 3);
        let first: *const char = &list[0];
        assert_eq!(list.push('b'), Ok(()));
        assert_eq!(list.push('c'), Ok(()));
        assert!(!list.has_room());
        assert_eq!(list.push('d'), Err('d'));
        assert_eq!(list.iter().copied().collect::<String>(), "abc");
        assert_eq!((list.len(), list[2], list.get(3)), (3, 'c', None));
        assert!(std::ptr::eq(first, &list[0]));
    }
}
