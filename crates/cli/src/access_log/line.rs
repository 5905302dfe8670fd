//! One line of an access log.

use jiff::Timestamp;
use jiff::fmt::strtime;

/// What a line says of its request; all else is left aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The address that the request came from.
    pub client: &'a [u8],
    /// When, in whole seconds since the Unix epoch.
    pub second: u64,
    /// `GET`.
    pub method: &'a [u8],
    /// The path, without host and query.
    pub path: &'a [u8],
}

/// Why a line is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// There is no `[…]` after the client.
    #[error("no time in brackets after the client, as in `client - - [time] \"GET / HTTP/1.1\"`")]
    NoTime,
    /// What is in the brackets is no time.
    #[error("`{0}` is no time like 17/May/2015:10:05:03 +0000")]
    Time(String),
    /// A time before the Unix epoch.
    #[error("`{0}` is before 1970")]
    BeforeEpoch(String),
    /// There is no `"…"` after the time.
    #[error("no request in quotes after the time")]
    NoRequest,
    /// What is in the quotes is no request.
    #[error("`{0}` is no request like GET /path HTTP/1.1")]
    Request(String),
    /// The line does not end.
    #[error("longer than {0} bytes")]
    TooLong(usize),
}

/// Reads a line, without its end.
///
/// # Errors
///
/// [`Malformed`] says what is missing. What comes after the request may be
/// anything.
pub fn parse(line: &[u8]) -> Result<Line<'_>, Malformed> {
    let (client, rest) = split(line, b" ").ok_or(Malformed::NoTime)?;
    if client.is_empty() {
        return Err(Malformed::NoTime);
    }
    // A user's name may have spaces in it, and comes before the time.
    let (_, rest) = split(rest, b" [").ok_or(Malformed::NoTime)?;
    let (time, rest) = split(rest, b"]").ok_or(Malformed::NoTime)?;
    let second = second_of(time)?;
    let rest = rest.trim_ascii_start();
    let quoted = rest.strip_prefix(b"\"").ok_or(Malformed::NoRequest)?;
    let request = until_quote(quoted).ok_or(Malformed::NoRequest)?;
    let (method, path) = request_of(request).ok_or_else(|| Malformed::Request(shown(request)))?;
    Ok(Line {
        client,
        second,
        method,
        path,
    })
}

fn second_of(time: &[u8]) -> Result<u64, Malformed> {
    let parsed = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).and_then(|it| it.to_timestamp());
    let parsed: Timestamp = parsed.map_err(|_| Malformed::Time(shown(time)))?;
    u64::try_from(parsed.as_second()).map_err(|_| Malformed::BeforeEpoch(shown(time)))
}

/// Up to the next quote that no backslash precedes.
fn until_quote(quoted: &[u8]) -> Option<&[u8]> {
    let mut escaped = false;
    let end = quoted.iter().position(|byte| {
        let is_end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        is_end
    })?;
    Some(&quoted[..end])
}

/// Method and path of `GET http://host/path?query HTTP/1.1`. Clients send
/// spaces in paths, and servers log them: only the ends are looked at.
fn request_of(request: &[u8]) -> Option<(&[u8], &[u8])> {
    let (method, rest) = split(request, b" ")?;
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
    if method.is_empty() || !method.iter().all(is_letter) {
        return None;
    }
    let rest = rest.trim_ascii();
    let target = match rest.iter().rposition(|byte| *byte == b' ') {
        Some(space) if rest[space + 1..].starts_with(b"HTTP/") => rest[..space].trim_ascii_end(),
        // Before HTTP/1.0 there was no version.
        _ => rest,
    };
    let path = path_of(target);
    (!path.is_empty()).then_some((method, path))
}

fn path_of(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|byte| matches!(byte, b'?' | b'#'));
    let target = &target[..end.unwrap_or(target.len())];
    // To proxies, and by some clients, the host is sent along.
    match split(target, b"://") {
        Some((scheme, rest)) if scheme.iter().all(u8::is_ascii_alphabetic) => {
            let slash = rest.iter().position(|byte| *byte == b'/');
            slash.map_or(b"/", |slash| &rest[slash..])
        }
        _ => target,
    }
}

fn split<'a>(text: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let found = text.windows(at.len()).position(|it| it == at)?;
    Some((&text[..found], &text[found + at.len()..]))
}

/// An excerpt for a message.
fn shown(text: &[u8]) -> String {
    const CHARS_MAX: usize = 60;
    let lossy = String::from_utf8_lossy(text);
    let mut shown: String = lossy.chars().take(CHARS_MAX).collect();
    if lossy.chars().nth(CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Option<(String, String)> {
        let line = format!("::1 - - [17/May/2015:10:05:03 +0000] \"{text}\" 200 1");
        let line = parse(line.as_bytes()).ok()?;
        let owned = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Some((owned(line.method), owned(line.path)))
    }

    #[test]
    fn a_combined_line_is_read() {
        let line = br#"198.18.0.1 - john doe [17/May/2015:12:05:03 +0200] "GET /a?b=c HTTP/1.1" 200 - "http://r/" "agent [x] \"y\"""#;
        let expected = Line {
            client: b"198.18.0.1",
            second: 1_431_857_103,
            method: b"GET",
            path: b"/a",
        };
        assert_eq!(parse(line), Ok(expected));
    }

    #[test]
    fn requests_are_read_as_servers_log_them() {
        for (text, method, path) in [
            ("GET / HTTP/1.0", "GET", "/"),
            ("GET /", "GET", "/"),
            ("GET /a b HTTP/1.1", "GET", "/a b"),
            (r#"GET /\"a\" HTTP/1.1"#, "GET", r#"/\"a\""#),
            (r"GET /a\\ HTTP/1.1", "GET", r"/a\\"),
            ("GET http://host:80/a?b HTTP/1.1", "GET", "/a"),
            ("GET http://host HTTP/1.1", "GET", "/"),
            ("GET /go?to=http://host/ HTTP/1.1", "GET", "/go"),
            ("OPTIONS * HTTP/1.1", "OPTIONS", "*"),
            ("CONNECT host:443 HTTP/1.1", "CONNECT", "host:443"),
            ("M-SEARCH * HTTP/1.1", "M-SEARCH", "*"),
        ] {
            assert_eq!(request(text), Some((method.into(), path.into())), "{text}");
        }
        for text in [
            "",
            "-",
            "GET",
            "GET ",
            "GET ?a HTTP/1.1",
            r"\x16\x03 \x01",
            "G T",
        ] {
            let expected = (text == "G T").then(|| ("G".to_owned(), "T".to_owned()));
            assert_eq!(request(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        for (line, expected) in [
            ("", Malformed::NoTime),
            ("198.18.0.1", Malformed::NoTime),
            (
                " - - [17/May/2015:10:05:03 +0000] \"GET /\"",
                Malformed::NoTime,
            ),
            ("a - - [17/May/2015:10:05:03 +0000", Malformed::NoTime),
            ("a - - []", Malformed::Time(String::new())),
            (
                "a - - [31/Feb/2015:10:05:03 +0000] \"GET /\"",
                Malformed::Time("31/Feb/2015:10:05:03 +0000".into()),
            ),
            (
                "a - - [01/Jan/1960:10:05:03 +0000] \"GET /\"",
                Malformed::BeforeEpoch("01/Jan/1960:10:05:03 +0000".into()),
            ),
            (
                "a - - [17/May/2015:10:05:03 +0000] 200",
                Malformed::NoRequest,
            ),
            (
                "a - - [17/May/2015:10:05:03 +0000] \"GET /",
                Malformed::NoRequest,
            ),
            (
                "a - - [17/May/2015:10:05:03 +0000] \"-\" 408 0",
                Malformed::Request("-".into()),
            ),
        ] {
            assert_eq!(parse(line.as_bytes()), Err(expected), "{line}");
        }
    }
}
