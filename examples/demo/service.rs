//! What is guarded: a service with some milliseconds of work for each request.

use std::sync::Arc;
use std::time::Duration;

use flowgate::{Engine, Resource, Timestamp, Traffic};
use tokio::time::sleep;

use crate::board::{Board, Call};

/// A request to the service.
pub(crate) struct Request {
    pub(crate) section: usize,
    pub(crate) client: String,
    pub(crate) phase: usize,
}

#[derive(Clone)]
pub(crate) struct Service {
    engine: Engine,
    site: Resource,
    board: Arc<Board>,
}

impl Service {
    pub(crate) fn new(engine: &Engine, board: Arc<Board>) -> Self {
        Service {
            engine: engine.clone(),
            site: engine.resource("site"),
            board,
        }
    }

    /// Answers a request, if the rules let it in.
    ///
    /// `site.acquire().await` would do the same in one line. Here the wait is
    /// asked for, to show it.
    pub(crate) async fn handle(self, request: Request) {
        let now = || self.engine.clock().now();
        let call = Call {
            phase: request.phase,
            section: request.section,
        };
        self.board.offered(call, now());
        let site = self.site.request();
        let site = site.origin(&request.client).traffic(Traffic::Inbound);
        let pending = match site.reserve() {
            Ok(pending) => pending,
            Err(_) => return self.board.blocked(call, now()),
        };
        let wait = pending.wait();
        if wait > Duration::ZERO {
            self.board.queued(call, now(), wait);
            sleep(wait).await;
        }
        let entry = pending.begin();
        self.board.passed(call, now());
        sleep(work(&request)).await;
        entry.exit();
    }
}

/// One to five milliseconds, as if some pages were more work than others.
fn work(request: &Request) -> Duration {
    Duration::from_millis(1 + request.section as u64 % 5)
}

/// Waits for a whole second to begin, so that the seconds shown are those that
/// the rules count in.
pub(crate) async fn next_whole_second(engine: &Engine) -> Timestamp {
    let now = engine.clock().now();
    let start = Timestamp::from_millis((now.as_secs() + 1) * 1_000);
    sleep(start.since(now)).await;
    start
}
