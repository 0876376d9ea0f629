//! Escapes in strings, and their removal.

/// Replaces the escapes of the new syntax. An unknown one loses its backslash; an octal one takes up to
/// three digits but never more than makes a byte.
#[must_use]
pub fn from_new(raw: &[u8]) -> Vec<u8> {
    let octal = |at: usize| {
        raw.get(at)
            .filter(|d| matches!(d, b'0'..=b'7'))
            .map(|d| d - b'0')
    };
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let b = raw[at];
        at += 1;
        if b != b'\\' || at == raw.len() {
            out.push(b);
            continue;
        }
        let escaped = raw[at];
        at += 1;
        out.push(match escaped {
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0B,
            b'0'..=b'7' => {
                let mut number = escaped - b'0';
                if let Some(d) = octal(at) {
                    at += 1;
                    number = number * 8 + d;
                    if number < 0o40
                        && let Some(d) = octal(at)
                    {
                        at += 1;
                        number = number * 8 + d;
                    }
                }
                number
            }
            other => other,
        });
    }
    out
}

/// Replaces the escapes of JSON; `None` for a malformed `\u` or a NUL. `as_reference` garbles characters
/// above ASCII the way HTCondor does.
#[must_use]
pub fn from_json(raw: &[u8], as_reference: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let b = raw[at];
        at += 1;
        if b != b'\\' || at == raw.len() {
            out.push(b);
            continue;
        }
        let escaped = raw[at];
        at += 1;
        match escaped {
            b'b' => out.push(0x08),
            b'f' => out.push(0x0C),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let digits = std::str::from_utf8(raw.get(at..at + 4)?).ok()?;
                let number = u32::from_str_radix(digits, 16).ok()?;
                at += 4;
                if as_reference && number >= 0x80 {
                    push_garbled(&mut out, number);
                    continue;
                }
                push_unicode(&mut out, number, raw, &mut at)?;
            }
            other => out.push(other),
        }
    }
    Some(out)
}

fn push_unicode(out: &mut Vec<u8>, number: u32, raw: &[u8], at: &mut usize) -> Option<()> {
    if number == 0 {
        return None;
    }
    let mut number = number;
    if (0xD800..0xDC00).contains(&number) && raw.get(*at..*at + 2) == Some(b"\\u") {
        let low = raw
            .get(*at + 2..*at + 6)
            .and_then(|d| std::str::from_utf8(d).ok());
        if let Some(low) = low.and_then(|d| u32::from_str_radix(d, 16).ok())
            && (0xDC00..0xE000).contains(&low)
        {
            number = 0x10000 + ((number - 0xD800) << 10) + (low - 0xDC00);
            *at += 6;
        }
    }
    let c = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

/// What HTCondor makes of `\u0080` and above: its masks are written in the wrong base.
fn push_garbled(out: &mut Vec<u8>, number: u32) {
    if number >= 0x800 {
        let last = number as u8 | 0x11;
        out.extend_from_slice(&[(number >> 12) as u8, (number >> 6) as u8 | 0x11, last]);
    } else {
        out.extend_from_slice(&[(number >> 6) as u8, number as u8 & 0x11]);
    }
}
