//! Numbers in text, read and written as C does.

/// Reads the longest prefix that is a number, as C's strtod: leading blanks, sign, decimal or
/// hexadecimal, `inf`, `nan`. Gives the value and how many bytes were read (0: no number).
#[must_use]
pub fn strtod(text: &[u8]) -> (f64, usize) {
    let mut at = 0;
    while at < text.len() && crate::lexer::is_space(text[at]) {
        at += 1;
    }
    let mut negative = false;
    if let Some(sign @ (b'+' | b'-')) = text.get(at) {
        negative = *sign == b'-';
        at += 1;
    }
    let rest = &text[at..];
    let starts =
        |word: &[u8]| rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word);
    let (value, used) = if starts(b"infinity") {
        (f64::INFINITY, 8)
    } else if starts(b"inf") {
        (f64::INFINITY, 3)
    } else if starts(b"nan") {
        (f64::NAN, 3 + nan_payload(&rest[3..]))
    } else if starts(b"0x") && hex_digits_follow(&rest[2..]) {
        let (v, n) = hex_float(&rest[2..]);
        (v, n + 2)
    } else {
        decimal(rest)
    };
    if used == 0 {
        return (0.0, 0);
    }
    (if negative { -value } else { value }, at + used)
}

fn nan_payload(rest: &[u8]) -> usize {
    if rest.first() != Some(&b'(') {
        return 0;
    }
    let inner = rest[1..]
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
        .count();
    if rest.get(1 + inner) == Some(&b')') {
        inner + 2
    } else {
        0
    }
}

fn hex_digits_follow(rest: &[u8]) -> bool {
    let digit = |i: usize| rest.get(i).is_some_and(u8::is_ascii_hexdigit);
    digit(0) || (rest.first() == Some(&b'.') && digit(1))
}

fn hex_float(rest: &[u8]) -> (f64, usize) {
    let mut mantissa: u64 = 0;
    let mut exponent: i64 = 0;
    let mut sticky = false;
    let mut at = 0;
    let mut point = false;
    while let Some(&b) = rest.get(at) {
        if b == b'.' && !point {
            point = true;
        } else if let Some(d) = (b as char).to_digit(16) {
            if mantissa >> 60 == 0 {
                mantissa = mantissa << 4 | u64::from(d);
                exponent -= if point { 4 } else { 0 };
            } else {
                sticky |= d != 0;
                exponent += if point { 0 } else { 4 };
            }
        } else {
            break;
        }
        at += 1;
    }
    if matches!(rest.get(at), Some(b'p' | b'P')) {
        let (e, n) = exponent_digits(&rest[at + 1..]);
        if n > 0 {
            exponent += e;
            at += 1 + n;
        }
    }
    let mantissa = mantissa | u64::from(sticky);
    (
        (mantissa as f64) * 2f64.powi(exponent.clamp(-2000, 2000) as i32),
        at,
    )
}

fn exponent_digits(rest: &[u8]) -> (i64, usize) {
    let sign = usize::from(matches!(rest.first(), Some(b'+' | b'-')));
    let digits = rest[sign.min(rest.len())..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    if digits == 0 {
        return (0, 0);
    }
    let mut value: i64 = 0;
    for b in &rest[sign..sign + digits] {
        value = (value * 10 + i64::from(b - b'0')).min(1_000_000);
    }
    (if rest[0] == b'-' { -value } else { value }, sign + digits)
}

fn decimal(rest: &[u8]) -> (f64, usize) {
    let count = |from: usize| {
        rest[from..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let whole = count(0);
    let mut at = whole;
    let mut fraction = 0;
    if rest.get(at) == Some(&b'.') {
        fraction = count(at + 1);
        if whole + fraction > 0 {
            at += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return (0.0, 0);
    }
    if matches!(rest.get(at), Some(b'e' | b'E')) {
        let (_, n) = exponent_digits(&rest[at + 1..]);
        if n > 0 {
            at += 1 + n;
        }
    }
    let text = std::str::from_utf8(&rest[..at]).unwrap_or("0");
    (text.parse().unwrap_or(0.0), at)
}

/// A decimal integer literal, possibly with a minus; 0 when it does not fit 64 bits.
#[must_use]
pub fn integer_prefix(text: &[u8]) -> i64 {
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        _ => (false, text),
    };
    let mut value: i64 = 0;
    for b in digits.iter().take_while(|b| b.is_ascii_digit()) {
        let d = i64::from(b - b'0');
        let next = value.checked_mul(10).and_then(|v| {
            if negative {
                v.checked_sub(d)
            } else {
                v.checked_add(d)
            }
        });
        match next {
            Some(v) => value = v,
            None => return 0,
        }
    }
    value
}

/// C's `%.<digits>E`, exponent of at least two digits.
pub fn push_exponential(out: &mut Vec<u8>, value: f64, digits: usize) {
    use std::io::Write;
    let at = out.len();
    let _ = write!(out, "{value:.digits$e}");
    if let Some(e) = out[at..].iter().position(|b| *b == b'e') {
        let exponent: i32 = std::str::from_utf8(&out[at + e + 1..])
            .ok()
            .and_then(|t| t.parse().ok())
            .unwrap_or(0);
        out.truncate(at + e);
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "E{sign}{:02}", exponent.abs());
    }
}

/// C's `%.<precision>g` (or `G` when `upper`), trailing zeros dropped.
pub fn push_general(out: &mut Vec<u8>, value: f64, precision: usize, upper: bool) {
    use std::io::Write;
    if !value.is_finite() {
        let text = if value.is_nan() {
            "nan"
        } else if value > 0.0 {
            "inf"
        } else {
            "-inf"
        };
        let text = if upper {
            text.to_ascii_uppercase()
        } else {
            text.to_string()
        };
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let precision = precision.max(1);
    let mut scientific = Vec::new();
    push_exponential(&mut scientific, value, precision - 1);
    let e = scientific.iter().position(|b| *b == b'E').unwrap_or(0);
    let exponent: i32 = std::str::from_utf8(&scientific[e + 1..])
        .ok()
        .and_then(|t| t.parse().ok())
        .unwrap_or(0);
    let strip = |text: &[u8]| {
        if !text.contains(&b'.') {
            return text.len();
        }
        let zeros = text.iter().rev().take_while(|b| **b == b'0').count();
        let kept = text.len() - zeros;
        if text[kept - 1] == b'.' {
            kept - 1
        } else {
            kept
        }
    };
    if exponent < -4 || exponent >= precision as i32 {
        out.extend_from_slice(&scientific[..strip(&scientific[..e])]);
        out.push(if upper { b'E' } else { b'e' });
        out.extend_from_slice(&scientific[e + 1..]);
    } else {
        let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
        let mut fixed = Vec::new();
        let _ = write!(fixed, "{value:.decimals$}");
        out.extend_from_slice(&fixed[..strip(&fixed)]);
    }
}
