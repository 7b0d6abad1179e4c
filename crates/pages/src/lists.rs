//! Lists of tasks that wait. All are in one table, so that no list has memory of its own: tasks come and go all the time.

/// A list, which is empty at first. Its items are in [`Lists`].
#[derive(Debug, Default)]
pub(crate) struct List {
    /// The numbers of the first and the last node plus one; 0: none.
    first: u32,
    last: u32,
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.first == 0
    }
    /// Takes all of its items into a list of their own.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

#[derive(Debug)]
struct Node<W> {
    /// `None`: the node is free.
    item: Option<W>,
    /// The next node of its list, or the next free one, plus one; 0: none.
    next: u32,
}

/// The items of all lists.
#[derive(Debug)]
pub(crate) struct Lists<W> {
    nodes: Vec<Node<W>>,
    free: u32,
}

impl<W> Lists<W> {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: 0,
        }
    }
    /// Adds an item after all others of a list.
    pub(crate) fn push(&mut self, list: &mut List, item: W) {
        let fresh = Node {
            item: Some(item),
            next: 0,
        };
        let number = match self.free {
            0 => {
                self.nodes.push(fresh);
                // Each item is a task on its way, and there are far fewer than 2^32 of those.
                self.nodes.len() as u32
            }
            free => {
                let node = &mut self.nodes[free as usize - 1];
                self.free = node.next;
                *node = fresh;
                free
            }
        };
        match list.last {
            0 => list.first = number,
            last => self.nodes[last as usize - 1].next = number,
        }
        list.last = number;
    }
    /// Takes the first item of a list.
    pub(crate) fn pop(&mut self, list: &mut List) -> Option<W> {
        let number = list.first;
        let node = self.nodes.get_mut((number as usize).wrapping_sub(1))?;
        let item = node.item.take();
        list.first = std::mem::replace(&mut node.next, self.free);
        self.free = number;
        if list.first == 0 {
            list.last = 0;
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn lists_are_queues_and_share_their_nodes() {
        let mut lists = Lists::new();
        let mut all: [(List, VecDeque<u32>); 5] = Default::default();
        let (mut seed, mut most) = (3_u64, 0);
        for item in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let which = (seed >> 20) as usize % 5;
            let (list, model) = &mut all[which];
            if seed >> 40 & 1 == 0 {
                lists.push(list, item);
                model.push_back(item);
            } else {
                assert_eq!(lists.pop(list), model.pop_front());
            }
            assert_eq!(list.is_empty(), model.is_empty());
            most = most.max(all.iter().map(|(_, model)| model.len()).sum());
        }
        assert!(most > 20);
        assert_eq!(lists.nodes.len(), most, "nodes are used again");
        for (list, model) in &mut all {
            let mut taken = list.take();
            assert!(list.is_empty());
            while let Some(item) = lists.pop(&mut taken) {
                assert_eq!(Some(item), model.pop_front());
            }
            assert!(model.is_empty());
        }
    }
}
