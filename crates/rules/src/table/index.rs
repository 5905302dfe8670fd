//! A map by name that is changed by making another, which shares almost all.
//!
//! Entries are sorted by the hash of their name and cut into shards by its first
//! bits, about as many shards as a shard has entries. So a change of one name
//! copies one shard and the list of shards, √n each: with 10,000 names about 200
//! pointers. Looking up is a binary search among the hashes of one shard.
//!
//! The hash is `std`'s with fixed keys, so that one hash of a name will do for
//! all tables. Who chooses names can fill one shard, which costs a change what a
//! change of all costs; to make a look-up slow takes many names with all 64 bits
//! of their hash in common.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

/// What has a name.
pub(super) trait Keyed {
    fn key(&self) -> &str;
}

pub(super) struct Index<T> {
    /// A power of two of them, in the order of the hashes.
    shards: Arc<[Shard<T>]>,
    len: usize,
}

/// Values with the hashes of their names, ascending.
type Shard<T> = Arc<[(u64, T)]>;

/// What becomes of one name.
pub(super) struct Change<T> {
    pub(super) hash: u64,
    pub(super) name: Arc<str>,
    /// `None`: it is taken out.
    pub(super) value: Option<T>,
}

impl<T> Change<T> {
    /// That `name` is taken out.
    pub(super) fn none(name: Arc<str>) -> Self {
        Self {
            hash: hash_of(&name),
            name,
            value: None,
        }
    }
}

/// How many names a shard may have for each shard that there is.
const FULL: usize = 4;

/// The hash by which `name` is found.
pub(crate) fn hash_of(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}

impl<T: Keyed + Clone> Index<T> {
    /// An index of these, which are sorted by their hashes and have a name each.
    pub(super) fn of(sorted: Vec<(u64, T)>) -> Self {
        let (len, bits) = (sorted.len(), bits_for(sorted.len()));
        let mut rest = sorted.into_iter().peekable();
        let shards = (0..1_usize << bits).map(|shard| {
            let own =
                std::iter::from_fn(|| rest.next_if(|(hash, _)| shard_of(*hash, bits) == shard));
            own.collect()
        });
        Self {
            shards: shards.collect(),
            len,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// What is called `name`, whose hash is `hash`.
    pub(super) fn get(&self, hash: u64, name: &str) -> Option<&T> {
        let shard = self.shards.get(shard_of(hash, self.bits()))?;
        let from = shard.partition_point(|(other, _)| *other < hash);
        let alike = shard.get(from..)?.iter();
        alike
            .take_while(|(other, _)| *other == hash)
            .map(|(_, value)| value)
            .find(|value| value.key() == name)
    }

    /// All, in the order of their hashes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let shards = self.shards.iter();
        shards.flat_map(|shard| shard.iter().map(|(hash, value)| (*hash, value)))
    }

    /// This index with some names changed.
    pub(super) fn with(&self, mut changes: Vec<Change<T>>) -> Self {
        if changes.is_empty() {
            return self.clone();
        }
        changes.sort_by_key(|change| change.hash);
        let shards = self.shards.len();
        let may_be = self.len + changes.len();
        if changes.len() >= shards || may_be > FULL * shards * shards {
            let all = self.iter().map(|(hash, value)| (hash, value.clone()));
            return Self::of(merged(all, changes));
        }
        let bits = self.bits();
        let mut all = self.shards.to_vec();
        let mut len = self.len;
        let mut rest = changes.into_iter().peekable();
        while let Some(first) = rest.next() {
            let at = shard_of(first.hash, bits);
            let more = std::iter::from_fn(|| rest.next_if(|next| shard_of(next.hash, bits) == at));
            let own: Vec<Change<T>> = std::iter::once(first).chain(more).collect();
            if let Some(shard) = all.get_mut(at) {
                let changed = merged(shard.iter().cloned(), own);
                len = len + changed.len() - shard.len();
                *shard = changed.into();
            }
        }
        Self {
            shards: all.into(),
            len,
        }
    }

    fn bits(&self) -> u32 {
        self.shards.len().trailing_zeros()
    }
}

impl<T> Clone for Index<T> {
    fn clone(&self) -> Self {
        Self {
            shards: Arc::clone(&self.shards),
            len: self.len,
        }
    }
}

/// About √`len` shards, as a power of two.
fn bits_for(len: usize) -> u32 {
    len.checked_ilog2().unwrap_or_default().div_ceil(2)
}

fn shard_of(hash: u64, bits: u32) -> usize {
    // Two shifts, as one by 64 is none.
    ((hash >> 1) >> (63 - bits)) as usize
}

/// `old` with the changes made; both are sorted, and so is what comes out.
fn merged<T: Keyed>(old: impl Iterator<Item = (u64, T)>, changes: Vec<Change<T>>) -> Vec<(u64, T)> {
    let stays = |(hash, value): &(u64, T)| {
        let from = changes.partition_point(|change| change.hash < *hash);
        let mut alike = changes[from..]
            .iter()
            .take_while(|change| change.hash == *hash);
        !alike.any(|change| *change.name == *value.key())
    };
    let mut all: Vec<(u64, T)> = old.filter(stays).collect();
    let new = changes.into_iter();
    all.extend(new.filter_map(|change| Some((change.hash, change.value?))));
    all.sort_by_key(|(hash, _)| *hash);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    impl Keyed for (Arc<str>, u32) {
        fn key(&self) -> &str {
            &self.0
        }
    }

    type Pair = (Arc<str>, u32);

    fn check(index: &Index<Pair>, hash: fn(&str) -> u64, expected: &BTreeMap<String, u32>) {
        assert_eq!(index.len(), expected.len());
        assert_eq!(index.iter().count(), expected.len());
        assert!(index.iter().is_sorted_by_key(|(hash, _)| hash));
        for n in 0..400 {
            let name = format!("n{n}");
            let found = index.get(hash(&name), &name).map(|pair| pair.1);
            assert_eq!(found, expected.get(&name).copied(), "{name}");
        }
    }

    #[test]
    fn what_is_put_in_is_found_until_it_is_taken_out_also_where_hashes_are_alike() {
        let hashes: [fn(&str) -> u64; 3] = [hash_of, |name| hash_of(name) & 1, |_| u64::MAX];
        for hash in hashes {
            let mut expected = BTreeMap::new();
            let mut index = Index::<Pair>::of(Vec::new());
            let before = index.clone();
            // Some at a time, one at a time, and then most of them out again.
            for (round, names) in [
                (0, 0..300),
                (1, 250..251),
                (2, 0..40),
                (3, 3..390),
                (4, 7..9),
            ] {
                let changes = names.map(|n| {
                    let name = format!("n{n}");
                    let value = (round != 3).then_some(round);
                    match value {
                        Some(value) => drop(expected.insert(name.clone(), value)),
                        None => drop(expected.remove(&name)),
                    }
                    let name: Arc<str> = name.into();
                    Change {
                        hash: hash(&name),
                        value: value.map(|value| (Arc::clone(&name), value)),
                        name,
                    }
                });
                index = index.with(changes.collect());
                check(&index, hash, &expected);
            }
            check(&before, hash, &BTreeMap::new());
        }
    }

    #[test]
    fn a_change_of_one_name_leaves_the_other_shards_where_they_are() {
        let all = (0..10_000).map(|n| (Arc::from(format!("n{n}")), n));
        let mut sorted: Vec<(u64, Pair)> = all.map(|pair: Pair| (hash_of(&pair.0), pair)).collect();
        sorted.sort_by_key(|(hash, _)| *hash);
        let old = Index::of(sorted);
        assert_eq!(old.shards.len(), 128);
        let name: Arc<str> = "n77".into();
        let change = Change {
            hash: hash_of(&name),
            value: Some((Arc::clone(&name), 1)),
            name,
        };
        let new = old.with(vec![change]);
        let pairs = old.shards.iter().zip(&*new.shards);
        let moved = pairs.filter(|(old, new)| !Arc::ptr_eq(old, new));
        assert_eq!(moved.count(), 1);
    }
}
