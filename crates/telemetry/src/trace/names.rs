//! The names of events, by number.

use std::collections::HashMap;

/// The number of a name; 0 is no name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NameId(pub(crate) u32);

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    all: Vec<(&'static str, String)>,
    by_name: HashMap<(&'static str, String), NameId>,
}

impl Names {
    pub(super) fn id(&mut self, category: &'static str, name: &str) -> NameId {
        let key = (category, name.to_owned());
        if let Some(id) = self.by_name.get(&key) {
            return *id;
        }
        self.all.push(key.clone());
        let id = NameId(self.all.len() as u32);
        self.by_name.insert(key, id);
        id
    }

    /// All names with their numbers and categories.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NameId, &'static str, &str)> {
        let numbered = (1..).map(NameId).zip(&self.all);
        numbered.map(|(id, (category, name))| (id, *category, &**name))
    }
}
