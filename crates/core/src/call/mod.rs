//! The words of a call: what it is, what it holds, how it is decided, and how
//! it ends.

mod alone;
mod arg;
mod holds;

use std::time::Duration;

use crate::block::Block;
use crate::node::Node;
use crate::node::permits::Share;
use crate::time::Timestamp;

pub use arg::{Arg, Digest};
pub use holds::{Hold, Holds, Seats, TICKETS_INLINE, Ticket};

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
    /// From where it is in flight there.
    pub seats: Seats,
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
