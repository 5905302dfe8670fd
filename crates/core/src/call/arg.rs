//! Arguments of a call, for slots that look at them.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;

/// One argument of a call, for slots that look at arguments.
///
/// ```
/// use flowgate_core::Arg;
///
/// let args = [Arg::from("alice"), Arg::from(7_u64), Arg::hashed(&("eu", 3))];
/// assert_eq!(args[1], Arg::from(7_i16));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Arg<'a> {
    /// Nothing.
    Null,
    /// A whole number; all widths are one kind of value.
    Int(i128),
    /// A whole number that is too large for [`Arg::Int`].
    Huge(u128),
    /// A number with a fraction.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A character.
    Char(char),
    /// A text.
    Str(&'a str),
    /// A value of the service's own, known by its digest: see [`Arg::hashed`].
    Hashed(u128),
    /// Several values, taken one by one.
    List(&'a [Arg<'a>]),
}

impl Arg<'_> {
    /// Any value, known by 128 bits of its hash.
    ///
    /// The hash is keyed at random for each process: nobody can choose values
    /// that collide, and among a million values two share a digest with a
    /// chance of 1 to 10^26. Digests of two processes cannot be compared.
    pub fn hashed<T: Hash + ?Sized>(value: &T) -> Self {
        Arg::Hashed(Digest::process().of(value))
    }
}

/// 128 bits of a keyed hash, in one pass over the value.
///
/// ```
/// use flowgate_core::Digest;
///
/// let digest = Digest::random();
/// assert_eq!(digest.of("alice"), digest.of("alice"));
/// assert_ne!(digest.of("alice"), digest.of("bob"));
/// ```
#[derive(Clone, Debug)]
pub struct Digest {
    keys: RandomState,
}

impl Digest {
    /// One with keys of its own.
    pub fn random() -> Self {
        Digest {
            keys: RandomState::new(),
        }
    }

    /// The one whose keys the process draws at its first use.
    pub fn process() -> &'static Self {
        static PROCESS: OnceLock<Digest> = OnceLock::new();
        PROCESS.get_or_init(Self::random)
    }

    /// The digest of `value`.
    ///
    /// A keyed hash of the value, and the same hash of the value with one more
    /// byte: under a secret key these two are as independent as hashes under
    /// two keys, for the price of one pass.
    pub fn of<T: Hash + ?Sized>(&self, value: &T) -> u128 {
        let mut hasher = self.keys.build_hasher();
        value.hash(&mut hasher);
        let low = hasher.finish();
        hasher.write_u8(0x80);
        (u128::from(hasher.finish()) << 64) | u128::from(low)
    }
}

macro_rules! arg_from {
    ($($from:ty => $variant:ident),*) => {$(
        impl From<$from> for Arg<'_> {
            fn from(value: $from) -> Self {
                Arg::$variant(value.into())
            }
        }
    )*};
}
arg_from!(i8 => Int, i16 => Int, i32 => Int, i64 => Int, i128 => Int,
          u8 => Int, u16 => Int, u32 => Int, u64 => Int,
          f32 => Float, f64 => Float, bool => Bool, char => Char);

impl From<u128> for Arg<'_> {
    fn from(value: u128) -> Self {
        i128::try_from(value).map_or(Arg::Huge(value), Arg::Int)
    }
}

// No platform has a pointer wider than 64 bits, so neither cast loses any.
impl From<usize> for Arg<'_> {
    fn from(value: usize) -> Self {
        Arg::Int(value as i128)
    }
}

impl From<isize> for Arg<'_> {
    fn from(value: isize) -> Self {
        Arg::Int(value as i128)
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(value: &'a str) -> Self {
        Arg::Str(value)
    }
}

impl<'a> From<&'a String> for Arg<'a> {
    fn from(value: &'a String) -> Self {
        Arg::Str(value)
    }
}

impl<'a> From<&'a [Arg<'a>]> for Arg<'a> {
    fn from(value: &'a [Arg<'a>]) -> Self {
        Arg::List(value)
    }
}
