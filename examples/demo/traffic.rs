//! The requests of a real log, in less time.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use flowgate::{RuleError, Timestamp};
use flowgate_cli::access_log::{AccessLog, ResourceOf};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::service::{Request, Service};
use crate::{PHASE_SECONDS, PHASES, SECONDS};

/// The log spans 3 days and 11 hours.
const SPEED: f64 = 20_000.0;

pub(crate) struct Traffic {
    log: AccessLog,
    sections: Vec<String>,
    /// For each path of the log its section.
    section_of: Vec<usize>,
}

impl Traffic {
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let log = AccessLog::read(BufReader::new(file), ResourceOf::Path, |_| {})?;
        let mut sections = Vec::new();
        let mut section_of = Vec::new();
        for path in log.resources.iter() {
            let section = section(path);
            let known = sections.iter().position(|it| it == section);
            section_of.push(known.unwrap_or_else(|| {
                sections.push(section.to_owned());
                sections.len() - 1
            }));
        }
        Ok(Traffic {
            log,
            sections,
            section_of,
        })
    }

    /// The parts of the site.
    pub(crate) fn sections(&self) -> &[String] {
        &self.sections
    }

    /// Sends all requests, each at its time, and has the rules swapped as the
    /// phases begin. Returns when all requests were answered, and the last
    /// phase is over.
    pub(crate) async fn feed(
        &self,
        service: &Service,
        swap: impl Fn(usize) -> Result<(), RuleError>,
    ) -> Result<(), RuleError> {
        let begin = Instant::now();
        let first = Timestamp::from_millis(self.log.first_second().unwrap_or_default() * 1_000);
        let mut answered = JoinSet::new();
        let mut phase = 0;
        for (at, request) in self.log.arrivals(SPEED) {
            let after = at.since(first);
            let due = (after.as_secs() as usize / PHASE_SECONDS).min(PHASES.len() - 1);
            if due != phase {
                phase = due;
                sleep_until(begin + seconds(phase * PHASE_SECONDS)).await;
                swap(phase)?;
            }
            if begin.elapsed() < after {
                sleep_until(begin + after).await;
            }
            let request = Request {
                section: self.section_of[request.resource as usize],
                client: self.log.clients[request.client].to_owned(),
                phase,
            };
            answered.spawn(service.clone().handle(request));
            while answered.try_join_next().is_some() {}
        }
        sleep_until(begin + seconds(SECONDS)).await;
        answered.join_all().await;
        Ok(())
    }
}

fn seconds(seconds: usize) -> Duration {
    Duration::from_secs(seconds as u64)
}

/// `/blog` of `/blog/geekery/ssl-latency.html`.
fn section(path: &str) -> &str {
    let end = path.char_indices().skip(1).find(|(_, c)| *c == '/');
    &path[..end.map_or(path.len(), |(at, _)| at)]
}
