//! The words of a call: what it is, what it holds, how it is decided, and how
//! it ends.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;
use std::time::Duration;

use smallvec::SmallVec;

use crate::block::Block;
use crate::leap_array::{Loan, Taken};
use crate::node::permits::{Crowded, Share};
use crate::node::{Interval, Node, View};
use crate::time::Timestamp;

/// Which way a call goes, seen from the service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Traffic {
    /// From outside into the service: counted in the inbound total.
    Inbound,
    /// From the service to others, or within it.
    #[default]
    Outbound,
}

/// How a guarded call ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// It did its work.
    Success,
    /// It failed: counts as completed, and as an exception.
    Error,
    /// It was given up before its end: counts neither way.
    Cancelled,
    /// It came to its end in a way that says nothing of the resource, like a
    /// request for what is not there: counts as completed, with its time, and no
    /// breaker looks at it.
    Ignored,
}

/// What a slot says of a call.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// It may pass as far as this slot is concerned.
    Pass,
    /// It may pass when this much time has gone by; its place is reserved.
    Wait(Duration),
    /// It may pass when permits of its resource are free, and may wait for
    /// them. What it has taken by then goes back; when the permits were granted
    /// it goes through the chain anew, with them in hand.
    Queue(Queue),
    /// It may not pass.
    Block(Block),
}

/// A wait for permits.
#[derive(Clone, PartialEq, Debug)]
pub struct Queue {
    /// The limit on permits in flight that it waits under.
    pub limit: u64,
    /// The longest wait.
    pub wait_max: Duration,
    /// How many calls of the resource may wait at once.
    pub queued_max: usize,
    /// Which of the slot's rules says so.
    pub rule: u32,
    /// Its refusal, should it wait in vain or too many wait already.
    pub block: Block,
}

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

/// Which of a call's nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The resource as a whole.
    Resource = 0,
    /// The resource as called by one origin.
    Origin = 1,
    /// The resource as called in one context.
    Context = 2,
    /// The resource's calls of its rarer direction.
    Twin = 3,
}

const PLACES: usize = 4;

/// The nodes that count one call.
#[derive(Clone, Copy, Debug)]
pub struct Nodes<'a> {
    all: [Option<&'a Node>; PLACES],
}

impl<'a> Nodes<'a> {
    /// The nodes of a call to `resource`, going the way of `traffic`.
    #[inline]
    pub fn new(
        resource: &'a Node,
        traffic: Traffic,
        origin: Option<&'a Node>,
        context: Option<&'a Node>,
    ) -> Self {
        Nodes {
            all: [Some(resource), origin, context, resource.twin_for(traffic)],
        }
    }

    /// The node at `place`, if the call has one there.
    #[inline]
    pub fn at(&self, place: Place) -> Option<&'a Node> {
        self.all[place as usize]
    }

    /// All nodes with their places.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, &'a Node)> + use<'a> {
        self.all
            .into_iter()
            .enumerate()
            .filter_map(|(at, node)| Some((at, node?)))
    }
}

/// What a call has taken of one node's passes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Hold {
    /// Nothing.
    #[default]
    Nothing,
    /// Passes of the present window.
    Passed(Taken),
    /// Passes of a window to come.
    Loaned(Loan),
}

/// A note that a slot leaves for itself, to be able to give back or to report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// Which slot wrote it: [`Call::slot`] at the time.
    pub slot: u16,
    /// Which of the slot's rules.
    pub rule: u32,
    /// The slot's own business.
    pub data: [u64; 3],
}

/// How many tickets a call keeps in place; a resource with more pacing rules
/// and breakers than that costs an allocation per call.
pub const TICKETS_INLINE: usize = 4;

/// In how many views that rules asked for a call is counted without an
/// allocation: in a minute, an hour and a day of its resource, say, and in one
/// of its origin.
const VIEWS_INLINE: usize = 4;

/// Passes taken of a view that rules asked for. Every call has room for some of
/// these, so the interval is taken apart: that leaves 32 bytes.
#[derive(Clone, Copy, Debug)]
struct ViewHold {
    taken: Taken,
    interval_ms: u32,
    boxes: u16,
    place: u8,
}

impl ViewHold {
    fn new(place: u8, interval: Interval, taken: Taken) -> Self {
        let (interval_ms, boxes) = interval.parts();
        ViewHold {
            taken,
            interval_ms,
            boxes,
            place,
        }
    }
}

/// All that a call has taken so far.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    pass: [Hold; PLACES],
    views: SmallVec<[ViewHold; VIEWS_INLINE]>,
    in_flight: [Share; PLACES],
    /// Notes of slots, in the order of the checks. [`TICKETS_INLINE`] are
    /// kept in place.
    pub tickets: SmallVec<[Ticket; TICKETS_INLINE]>,
    /// The longest wait asked for.
    pub wait: Duration,
    /// Whether the passes are to be counted when the wait has ended.
    pub pass_is_due: bool,
    /// When the call is charged: its clock reading, or the beginning of the
    /// newer window that its passes were counted in.
    pub charged: Timestamp,
    wait_slot: u16,
    wait_rule: u32,
    queued_for: Option<(u16, u32)>,
    excluded: u64,
}

impl Holds {
    /// What was taken at `place`.
    #[inline]
    pub fn pass(&self, place: Place) -> Hold {
        self.pass[place as usize]
    }

    /// What was taken in flight at `place`.
    #[inline]
    pub fn in_flight(&self, place: Place) -> Share {
        self.in_flight[place as usize]
    }

    /// Notes that passes were taken at `place`.
    #[inline]
    pub fn set_pass(&mut self, place: Place, hold: Hold) {
        self.pass[place as usize] = hold;
    }

    /// What was taken of `view` at `place`.
    #[inline]
    pub fn pass_in(&self, place: Place, view: View<'_>) -> Hold {
        let View::Own { interval, .. } = view else {
            return self.pass(place);
        };
        let mut views = self.views.iter();
        let wanted = (place as u8, interval.parts());
        let found = views.find(|held| (held.place, (held.interval_ms, held.boxes)) == wanted);
        found.map_or(Hold::Nothing, |held| Hold::Passed(held.taken))
    }

    /// Notes that passes of `view` were reserved at `place`, which held none.
    #[inline]
    pub fn set_taken_in(&mut self, place: Place, view: View<'_>, taken: Taken) {
        match view {
            View::Second => self.set_pass(place, Hold::Passed(taken)),
            View::Own { interval, .. } => {
                self.views.push(ViewHold::new(place as u8, interval, taken));
            }
        }
    }

    /// Notes that `share` was taken in flight at `place`.
    #[inline]
    pub fn add_in_flight(&mut self, place: Place, share: Share) {
        let held = &mut self.in_flight[place as usize];
        held.place |= share.place;
        held.permits |= share.permits;
    }

    /// Notes that `rule` of slot `slot` asks for a wait; the longest is kept.
    #[inline]
    pub fn wait_for(&mut self, slot: u16, rule: u32, wait: Duration) {
        if wait > self.wait {
            self.wait = wait;
            self.wait_slot = slot;
            self.wait_rule = rule;
        }
    }

    /// The slot, and its rule, that asked for the longest wait.
    pub fn waits_for(&self) -> (u16, u32) {
        (self.wait_slot, self.wait_rule)
    }

    /// What a call holds that has waited for permits of its resource because
    /// `rule` of slot `slot` said so: the permits, and nothing else yet.
    pub fn granted(slot: u16, rule: u32) -> Self {
        let mut holds = Holds {
            queued_for: Some((slot, rule)),
            ..Holds::default()
        };
        holds.add_in_flight(Place::Resource, Share::PERMITS);
        holds
    }

    /// The slot, and its rule, that had the call wait for permits.
    pub fn queued_for(&self) -> Option<(u16, u32)> {
        self.queued_for
    }

    /// Notes that slot `slot` has failed on this call and is not to hear of it
    /// again. A chain has at most 64 slots.
    pub fn exclude(&mut self, slot: u16) {
        self.excluded |= 1 << (slot % 64);
    }

    /// One bit for each slot that has failed on this call.
    #[inline]
    pub fn excluded(&self) -> u64 {
        self.excluded
    }

    /// Gives back all that a call of this weight has taken on `nodes`.
    pub fn release(&mut self, nodes: &Nodes<'_>, weight: u32) {
        for held in self.views.drain(..) {
            if let Some(node) = nodes.all[usize::from(held.place)] {
                node.give_back(Hold::Passed(held.taken));
            }
        }
        for (at, node) in nodes.iter() {
            node.give_back(std::mem::take(&mut self.pass[at]));
            let share = std::mem::take(&mut self.in_flight[at]);
            if share != Share::NOTHING {
                node.leave(share, weight);
            }
        }
    }

    /// Admits the call: a place in flight and its permits on every node, and the
    /// passes where they belong.
    ///
    /// * Borrowed anywhere: booked on every node, for the latest window.
    /// * Reserved anywhere, or no wait: counted on every node now.
    /// * Otherwise the call waits, and its pass is due when the wait ends: see
    ///   [`Holds::go_ahead`].
    ///
    /// Views that rules asked for count it when the minute does: a borrowed
    /// pass too at once.
    ///
    /// # Errors
    ///
    /// [`Crowded`], if there are more calls in flight than can be counted; what
    /// was taken up to then is held, and to be [released](Holds::release).
    #[inline]
    pub fn admit(&mut self, nodes: &Nodes<'_>, now: Timestamp, weight: u32) -> Result<(), Crowded> {
        let loaned = self.pass.iter().filter_map(|hold| match hold {
            Hold::Loaned(loan) => Some(loan.window()),
            _ => None,
        });
        let loaned = loaned.max();
        let reserved =
            !self.views.is_empty() || self.pass.iter().any(|hold| *hold != Hold::Nothing);
        self.pass_is_due = !reserved && !self.wait.is_zero();
        let counts_now = loaned.is_none() && !self.pass_is_due;
        self.charged = now;
        for (at, node) in nodes.iter() {
            let in_flight = match self.in_flight[at] {
                Share::WHOLE => node.in_flight(),
                held => node.enter(held, weight)?,
            };
            self.in_flight[at] = Share::WHOLE;
            let counts = counts_now && self.pass[at] == Hold::Nothing;
            if let Some(taken) = node.arrive(now, in_flight, counts.then_some(weight)) {
                self.pass[at] = Hold::Passed(taken);
            }
            if let Hold::Passed(taken) = self.pass[at] {
                self.charged = self.charged.max(node.counted_at(taken));
            }
            if !self.pass_is_due {
                self.count_in_views(at, node, now, weight);
            }
        }
        if let Some(window) = loaned {
            self.book(nodes, now, weight, window);
        }
        Ok(())
    }

    /// The wait has ended, at `now`: counts the passes that are due.
    pub fn go_ahead(&mut self, nodes: &Nodes<'_>, now: Timestamp, weight: u32) {
        for (at, node) in nodes.iter() {
            if let Hold::Loaned(loan) = self.pass[at] {
                node.go_ahead(now, loan);
            }
        }
        if !std::mem::take(&mut self.pass_is_due) {
            return;
        }
        for (at, node) in nodes.iter() {
            if self.pass[at] == Hold::Nothing {
                self.pass[at] = Hold::Passed(node.pass(now, weight));
            }
            self.count_in_views(at, node, now, weight);
        }
    }

    /// Counts the call in those views of `node` that it has reserved nothing of.
    #[inline]
    fn count_in_views(&mut self, at: usize, node: &Node, now: Timestamp, weight: u32) {
        let place = at as u8;
        let views = &mut self.views;
        let latest = node.count_in_views(now, weight, |ring, interval, pass| {
            let is_held = |held: &&ViewHold| held.place == place && held.taken.ring() == ring;
            if let Some(held) = views.iter().find(is_held) {
                return held.taken;
            }
            let taken = pass();
            views.push(ViewHold::new(place, interval, taken));
            taken
        });
        self.charged = self.charged.max(latest);
    }

    #[cold]
    fn book(&mut self, nodes: &Nodes<'_>, now: Timestamp, weight: u32, window: u64) {
        for (at, node) in nodes.iter() {
            // Booked anew before the old hold goes: in between the call counts
            // twice, never not at all.
            let booked = node.book(now, weight, window);
            node.give_back(std::mem::replace(&mut self.pass[at], Hold::Loaned(booked)));
        }
    }
}

/// A call on its way in: all that a slot may look at, and what it holds.
#[derive(Debug)]
pub struct Call<'a> {
    /// Name of the resource.
    pub resource: &'a str,
    /// The one clock reading of the entry.
    pub now: Timestamp,
    /// How many permits it asks for; 0 asks without taking any.
    pub weight: u32,
    /// Whether it may borrow from windows to come.
    pub prioritized: bool,
    /// Whether its caller waits if told to; otherwise it is refused instead.
    pub may_wait: bool,
    /// Whether its caller waits until permits are free; otherwise it is refused
    /// instead.
    pub may_queue: bool,
    /// Which way it goes.
    pub traffic: Traffic,
    /// Who calls; empty if unknown.
    pub origin: &'a str,
    /// The entrance it came through; never empty.
    pub context: &'a str,
    /// Its arguments.
    pub args: &'a [Arg<'a>],
    /// What else it says of itself, by name.
    pub attachments: &'a [(&'a str, Arg<'a>)],
    /// The nodes that count it.
    pub nodes: Nodes<'a>,
    /// What it has taken so far. For the slots that come with Flowgate; others
    /// leave tickets ([`Call::leave_ticket`]).
    pub holds: Holds,
    /// Position of the slot that is being asked, for tickets. The chain sets it.
    pub slot: u16,
}

impl<'a> Call<'a> {
    /// The attachment called `name`; of several the first.
    #[inline]
    pub fn attachment(&self, name: &str) -> Option<Arg<'a>> {
        let named = self.attachments.iter().find(|(key, _)| *key == name);
        named.map(|(_, value)| *value)
    }

    /// Leaves a ticket of the present slot.
    #[inline]
    pub fn leave_ticket(&mut self, rule: u32, data: [u64; 3]) {
        self.holds.tickets.push(Ticket {
            slot: self.slot,
            rule,
            data,
        });
    }

    /// The tickets of the present slot, in the order they were left.
    pub fn tickets(&self) -> impl DoubleEndedIterator<Item = &Ticket> {
        self.holds
            .tickets
            .iter()
            .filter(|ticket| ticket.slot == self.slot)
    }
}

/// A call on its way out.
#[derive(Debug)]
pub struct Departure<'a> {
    /// Name of the resource.
    pub resource: &'a str,
    /// When it arrived.
    pub entered: Timestamp,
    /// The one clock reading of the exit.
    pub now: Timestamp,
    /// The weight it asked for.
    pub weight: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The nodes that count it.
    pub nodes: Nodes<'a>,
    /// Notes that slots left when it came in.
    pub tickets: &'a [Ticket],
    /// Position of the slot that is being told, for tickets.
    pub slot: u16,
}

impl Departure<'_> {
    /// Response time, from arrival to end, waits included.
    pub fn took(&self) -> Duration {
        self.now.since(self.entered)
    }

    /// The tickets of the present slot, in the order they were left.
    pub fn tickets(&self) -> impl DoubleEndedIterator<Item = &Ticket> {
        self.tickets
            .iter()
            .filter(|ticket| ticket.slot == self.slot)
    }
}
