//! From lines to a log in the order of time.

use std::io::{self, BufRead};

use super::line::{Line, Malformed, parse};
use super::{AccessLog, Request, ResourceOf};

/// A line with a long cookie or query has some kilobytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// How many malformed lines are kept to be shown.
const MALFORMED_KEPT: usize = 5;

pub(super) fn read(
    mut reader: impl BufRead,
    resource_of: ResourceOf,
    mut progress: impl FnMut(u64),
) -> io::Result<AccessLog> {
    let mut log = AccessLog::default();
    let mut line = Vec::new();
    let mut name = String::new();
    let mut previous = 0;
    let mut number = 0;
    while let Some(len) = next_line(&mut reader, &mut line)? {
        number += 1;
        progress(len);
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        log.lines += 1;
        let parsed = if line.len() > LINE_BYTES_MAX {
            Err(Malformed::TooLong(LINE_BYTES_MAX))
        } else {
            parse(text)
        };
        match parsed {
            Ok(parsed) => {
                log.out_of_order += u64::from(parsed.second < previous);
                previous = parsed.second;
                log.keep(&parsed, resource_of, &mut name);
            }
            Err(malformed) => {
                log.malformed += 1;
                if log.malformed_first.len() < MALFORMED_KEPT {
                    log.malformed_first.push((number, malformed));
                }
            }
        }
    }
    // Stable: requests of one second stay in the order of the file.
    log.requests.sort_by_key(|request| request.second);
    Ok(log)
}

impl AccessLog {
    fn keep(&mut self, line: &Line<'_>, resource_of: ResourceOf, name: &mut String) {
        let method = String::from_utf8_lossy(line.method);
        let path = String::from_utf8_lossy(line.path);
        let client = String::from_utf8_lossy(line.client);
        // Only text with faults is copied.
        let copied = |text: &std::borrow::Cow<'_, str>| matches!(text, std::borrow::Cow::Owned(_));
        self.not_utf8 += u64::from(copied(&path) || copied(&client));
        name.clear();
        match resource_of {
            ResourceOf::MethodPath => name.extend([&*method, ":", &*path]),
            ResourceOf::Path => name.push_str(&path),
            ResourceOf::Method => name.push_str(&method),
        }
        self.requests.push(Request {
            second: line.second,
            resource: self.resources.number_of(name),
            client: self.clients.number_of(&client),
        });
    }
}

/// Reads a line with its end, and returns its length; `None` at the end of the
/// log. Of a line that is too long only the beginning is kept, one byte more
/// than a line may have.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<u64>> {
    line.clear();
    let mut len = 0;
    loop {
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let taken = newline.map_or(buffer.len(), |at| at + 1);
        let room = LINE_BYTES_MAX + 1 - line.len();
        line.extend_from_slice(&buffer[..taken.min(room)]);
        reader.consume(taken);
        len += taken as u64;
        if newline.is_some() || taken == 0 {
            return Ok((len > 0).then_some(len));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &[u8]) -> AccessLog {
        // A small buffer, so that lines span several.
        let reader = io::BufReader::with_capacity(7, text);
        read(reader, ResourceOf::MethodPath, |_| {}).unwrap()
    }

    #[test]
    fn lines_are_sorted_by_time_and_spread_over_their_second() {
        let line = |second: u32, path: &str| {
            format!("c - - [01/Jan/1970:00:00:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 1\r\n")
        };
        let text = [line(2, "/c"), line(1, "/a"), line(2, "/d"), line(1, "/b")].concat();
        let log = read_text(text.as_bytes());
        assert_eq!(log.out_of_order, 2);
        let arrivals = |speed| {
            let arrivals = log.arrivals(speed);
            let shown =
                arrivals.map(|(at, request)| (at.as_millis(), &log.resources[request.resource]));
            shown.collect::<Vec<_>>()
        };
        let expected = [
            (1000, "GET:/a"),
            (1500, "GET:/b"),
            (2000, "GET:/c"),
            (2500, "GET:/d"),
        ];
        assert_eq!(arrivals(1.0), expected);
        let expected = [
            (1000, "GET:/a"),
            (1050, "GET:/b"),
            (1100, "GET:/c"),
            (1150, "GET:/d"),
        ];
        assert_eq!(arrivals(10.0), expected);
    }

    #[test]
    fn a_line_without_end_is_not_kept_in_memory() {
        let mut text = vec![b'a'; 3 * LINE_BYTES_MAX];
        text.extend(b"\n\n \r\nb");
        let log = read_text(&text);
        assert_eq!((log.lines, log.malformed), (2, 2));
        assert_eq!(
            log.malformed_first,
            [
                (1, Malformed::TooLong(LINE_BYTES_MAX)),
                (4, Malformed::NoTime),
            ]
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let line = b"c - - [01/Jan/1970:00:00:01 +0000] \"GET /\xff HTTP/1.1\" 200 1";
        let log = read_text(line);
        assert_eq!((log.malformed, log.not_utf8), (0, 1));
        assert_eq!(log.resources.iter().collect::<Vec<_>>(), ["GET:/\u{FFFD}"]);
    }
}
