//! What is said about a place in a file, with its line shown and underlined.

use std::fmt::Write as _;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use flowgate::{Fault, Place};

/// Remarks beyond this many are only counted.
const SHOWN_MAX: usize = 100;

/// How much of a line is looked at on each side of a place, in bytes. More
/// than a terminal is wide; a document may be one line of megabytes.
const CONTEXT_BYTES: usize = 400;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
}

/// All `remarks` about the file `name` as text for a terminal, in colours.
pub(crate) fn render(severity: Severity, remarks: &[Fault], name: &str, file: &[u8]) -> String {
    let renderer = Renderer::styled();
    let mut text = String::new();
    for remark in remarks.iter().take(SHOWN_MAX) {
        let level = match severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(format!("{}: {}", remark.path, remark.message));
        let group = match &remark.place {
            Some(place) => located(Group::with_title(title), place, name, file),
            None => title.element(Origin::path(name)),
        };
        text.push_str(&renderer.render(&[group]));
        text.push_str("\n\n");
    }
    if let more @ 1.. = remarks.len().saturating_sub(SHOWN_MAX) {
        let _ = writeln!(text, "... and {more} more\n");
    }
    text
}

fn located<'a>(group: Group<'a>, place: &Place, name: &'a str, file: &[u8]) -> Group<'a> {
    let Excerpt {
        text,
        span,
        is_whole,
    } = excerpt(place, file);
    let snippet = Snippet::source(text)
        .line_start(place.line)
        .annotation(AnnotationKind::Primary.span(span));
    if is_whole {
        return group.element(snippet.path(name));
    }
    // The renderer would count columns from where the excerpt begins.
    let origin = Origin::path(name)
        .line(place.line)
        .char_column(place.column);
    group.element(origin).element(snippet)
}

struct Excerpt {
    text: String,
    /// Where the place is in the text.
    span: Range<usize>,
    /// Whether the text begins where the line does.
    is_whole: bool,
}

/// The line of a place, or as much of it as matters, and where the place is in
/// it. Of a place that spans lines only the first is shown.
fn excerpt(place: &Place, file: &[u8]) -> Excerpt {
    const BOM: &[u8] = "\u{FEFF}".as_bytes();
    let is_newline = |byte: &u8| *byte == b'\n';
    let at = place.offset.min(file.len());
    let mut from = at.saturating_sub(CONTEXT_BYTES);
    let mut is_whole = from == 0;
    if let Some(newline) = file[from..at].iter().rposition(is_newline) {
        from += newline + 1;
        is_whole = true;
    } else if from == 0 && file.starts_with(BOM) {
        from = BOM.len().min(at);
    }
    let to = (at + place.len.min(CONTEXT_BYTES) + CONTEXT_BYTES).min(file.len());
    let line = &file[at..to];
    let to = at + line.iter().position(is_newline).unwrap_or(line.len());
    let line_end = file[at..to].trim_ascii_end().len();
    let before = lossy_tail(&file[from..at]);
    let shown = place.len.min(line_end);
    let inside = String::from_utf8_lossy(&file[at..at + shown]);
    let after = String::from_utf8_lossy(&file[at + shown..to]);
    Excerpt {
        span: before.len()..before.len() + inside.len(),
        text: format!("{before}{inside}{}", after.trim_end()),
        is_whole,
    }
}

/// Text that may begin inside of a character.
fn lossy_tail(bytes: &[u8]) -> String {
    let is_inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let cut = bytes.iter().take(3).take_while(is_inside).count();
    String::from_utf8_lossy(&bytes[cut..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(file: &str, offset: usize, len: usize) -> (String, String) {
        let place = Place {
            offset,
            len,
            line: 1,
            column: 1,
        };
        let Excerpt { text, span, .. } = excerpt(&place, file.as_bytes());
        let inside = text[span].to_owned();
        (text, inside)
    }

    #[test]
    fn the_line_of_a_place_is_cut_out() {
        for (file, offset, len, line, inside) in [
            ("[\n  1,\n  2\n]", 4, 1, "  1,", "1"),
            ("[\r\n  ü,\r\n  2\r\n]", 5, 2, "  ü,", "ü"),
            ("{\n}\n", 0, 3, "{", "{"),
            ("\u{FEFF}[x]", 4, 1, "[x]", "x"),
            ("\u{FEFF}x", 0, 1, "\u{FFFD}\u{FFFD}\u{FFFD}x", "\u{FFFD}"),
            ("[", 1, 1, "[", ""),
            ("[", 9, 1, "[", ""),
            ("", 0, 1, "", ""),
        ] {
            let expected = (line.to_owned(), inside.to_owned());
            assert_eq!(shown(file, offset, len), expected, "{file:?} at {offset}");
        }
    }

    #[test]
    fn of_a_line_of_megabytes_only_what_matters_is_looked_at() {
        let file = "ü".repeat(1 << 20);
        let (text, inside) = shown(&file, 1 << 20, 1 << 19);
        assert!(text.len() <= 3 * CONTEXT_BYTES + 3, "{}", text.len());
        assert!(inside.chars().all(|c| c == 'ü' || c == '\u{FFFD}'));
    }
}
