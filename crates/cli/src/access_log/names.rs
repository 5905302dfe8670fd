//! Names, each kept once and known by its number.

use std::collections::HashMap;
use std::sync::Arc;

/// A list of different names.
#[derive(Debug, Default)]
pub struct Names {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Names {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names in the order in which they were first seen.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    pub(super) fn number_of(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        // A log with four billion different names does not fit in memory.
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let name: Arc<str> = name.into();
        self.numbers.insert(Arc::clone(&name), number);
        self.names.push(name);
        number
    }
}

impl std::ops::Index<u32> for Names {
    type Output = str;

    fn index(&self, number: u32) -> &str {
        &self.names[number as usize]
    }
}
