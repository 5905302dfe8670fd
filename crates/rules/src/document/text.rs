//! From bytes to text: what is no UTF-8 text is refused before JSON is tried.

use super::fault::{Fault, Place};

const BOM: &[u8] = &[0xEF, 0xBB, 0xBF];

/// The text of a document, and at which byte of what was handed in it starts
/// (3 after a byte order mark, else 0).
///
/// `path` and `clear` are for the errors: where, and what to write to clear
/// the rules.
pub(crate) fn decode<'a>(
    bytes: &'a [u8],
    path: &str,
    clear: &str,
) -> Result<(&'a str, usize), Fault> {
    let fault = |message: String| Fault {
        path: path.to_owned(),
        place: None,
        message,
    };
    let body = bytes.strip_prefix(BOM).unwrap_or(bytes);
    let base = bytes.len() - body.len();
    if is_utf16(body) {
        return Err(fault(
            "the text is UTF-16 (or has zero bytes); save it as UTF-8".to_owned(),
        ));
    }
    let text = std::str::from_utf8(body).map_err(|error| {
        let offset = base + error.valid_up_to();
        let mut fault = fault(format!(
            "byte {offset} is not valid UTF-8; save the text as UTF-8"
        ));
        let line = 1 + body[..error.valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        let column = 1 + String::from_utf8_lossy(&body[..error.valid_up_to()])
            .chars()
            .rev()
            .take_while(|c| *c != '\n')
            .count();
        fault.place = Some(Place {
            offset,
            len: 1,
            line,
            column,
        });
        fault
    })?;
    if text.trim().is_empty() {
        return Err(fault(format!(
            "the text is empty; write {clear} to clear the rules"
        )));
    }
    Ok((text, base))
}

/// A UTF-16 mark, or a zero byte near the start: JSON has none, and in UTF-16
/// every second byte of `[{"resource"` is one.
fn is_utf16(body: &[u8]) -> bool {
    const LOOK_AT: usize = 64;
    body.starts_with(&[0xFF, 0xFE])
        || body.starts_with(&[0xFE, 0xFF])
        || body.iter().take(LOOK_AT).any(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> String {
        decode(bytes, "flow", "[]").unwrap_err().to_string()
    }

    #[test]
    fn a_byte_order_mark_is_dropped_and_counted() {
        assert_eq!(decode(b"\xEF\xBB\xBF[]", "flow", "[]"), Ok(("[]", 3)));
        assert_eq!(decode(b"[]\r\n", "flow", "[]"), Ok(("[]\r\n", 0)));
    }

    #[test]
    fn what_is_no_text_is_refused_with_the_reason() {
        let utf16 = "flow: the text is UTF-16 (or has zero bytes); save it as UTF-8";
        let little: Vec<u8> = "[]".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "[]".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(message(&little), utf16);
        assert_eq!(message(&big), utf16);
        assert_eq!(message(b"\xFF\xFE[\0]\0"), utf16);
        assert_eq!(
            message(b"[\n\"\xFF\"]"),
            "flow: byte 3 is not valid UTF-8; save the text as UTF-8 (line 2, column 2)"
        );
        for empty in [&b""[..], b" \r\n\t", b"\xEF\xBB\xBF"] {
            assert_eq!(
                message(empty),
                "flow: the text is empty; write [] to clear the rules"
            );
        }
    }
}
