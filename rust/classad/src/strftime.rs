//! Moments to text by a pattern.

use crate::time::{Calendar, days_from_civil};

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// How a field of `strftime` is padded and cased.
#[derive(Clone, Copy, Default)]
struct Style {
    pad: Option<u8>,
    upper: bool,
    swap: bool,
    width: usize,
}

/// C's `strftime` in the C locale, with the flags glibc knows; the zone is UTC.
#[must_use]
pub fn strftime(c: &Calendar, format: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < format.len() && out.len() < 1023 {
        if format[at] != b'%' {
            out.push(format[at]);
            at += 1;
            continue;
        }
        let start = at;
        at += 1;
        let mut style = Style::default();
        while let Some(flag) = format.get(at) {
            match flag {
                b'_' | b'-' | b'0' => style.pad = Some(*flag),
                b'^' => style.upper = true,
                b'#' => style.swap = true,
                _ => break,
            }
            at += 1;
        }
        while let Some(d) = format.get(at).filter(|d| d.is_ascii_digit()) {
            style.width = (style.width * 10 + usize::from(d - b'0')).min(1023);
            at += 1;
        }
        let modifier = format.get(at).copied().filter(|m| matches!(m, b'E' | b'O'));
        at += usize::from(modifier.is_some());
        let Some(&conversion) = format.get(at) else {
            out.extend_from_slice(&format[start..]);
            break;
        };
        at += 1;
        // Conversions that the C library takes no modifier with.
        let allowed = match modifier {
            Some(b'E') => !b"aAbBdDeFgGhHIjklmMSUVwW".contains(&conversion),
            Some(_) => !b"aAcDFxXY".contains(&conversion),
            None => true,
        };
        if !allowed || !push_field(&mut out, c, conversion, style) {
            out.extend_from_slice(&format[start..at]);
        }
    }
    out.truncate(1022);
    out
}

fn push_number(out: &mut Vec<u8>, value: i64, width: usize, pad: u8, style: Style) {
    let pad = style.pad.unwrap_or(pad);
    let width = if pad == b'-' {
        style.width
    } else {
        width.max(style.width)
    };
    let digits = value.abs().to_string();
    let length = digits.len() + usize::from(value < 0);
    let missing = width.saturating_sub(length);
    let fill = if pad == b'_' { b' ' } else { b'0' };
    if fill == b' ' {
        out.extend(std::iter::repeat_n(b' ', missing));
    }
    if value < 0 {
        out.push(b'-');
    }
    if fill == b'0' {
        out.extend(std::iter::repeat_n(b'0', missing));
    }
    out.extend_from_slice(digits.as_bytes());
}

fn push_text(out: &mut Vec<u8>, text: &str, style: Style) {
    let missing = style.width.saturating_sub(text.len());
    let fill = if style.pad == Some(b'0') { b'0' } else { b' ' };
    out.extend(std::iter::repeat_n(fill, missing));
    let text = if style.upper {
        text.to_ascii_uppercase()
    } else {
        text.to_string()
    };
    out.extend_from_slice(text.as_bytes());
}

fn named(names: &[&'static str], at: i64, short: bool) -> &'static str {
    let name = usize::try_from(at)
        .ok()
        .and_then(|i| names.get(i))
        .copied()
        .unwrap_or("?");
    if short && name.len() > 3 {
        &name[..3]
    } else {
        name
    }
}

/// Year and week of the ISO calendar.
fn iso_week(c: &Calendar) -> (i64, i64) {
    let leap = |y: i64| (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
    let length = |y: i64| if leap(y) { 366 } else { 365 };
    // 378 days make every day of a year positive; days of fields out of range are as odd as in C.
    let week_days = |yday: i64, wday: i64| yday - (yday - wday + 4 + 378) % 7 + 3;
    let days = week_days(c.yearday, c.weekday);
    if days < 0 {
        let days = week_days(c.yearday + length(c.year - 1), c.weekday);
        return (c.year - 1, days / 7 + 1);
    }
    let next = week_days(c.yearday - length(c.year), c.weekday);
    if next >= 0 {
        (c.year + 1, next / 7 + 1)
    } else {
        (c.year, days / 7 + 1)
    }
}

fn push_field(out: &mut Vec<u8>, c: &Calendar, conversion: u8, style: Style) -> bool {
    // As in C, of an hour beyond 23 twelve is taken once.
    let hour12 = match c.hour {
        0 => 12,
        h if h > 12 => h - 12,
        h => h,
    };
    let mut number = |value, width, pad| push_number(out, value, width, pad, style);
    match conversion {
        b'd' => number(c.day, 2, b'0'),
        b'e' => number(c.day, 2, b'_'),
        b'H' => number(c.hour, 2, b'0'),
        b'I' => number(hour12, 2, b'0'),
        b'k' => number(c.hour, 2, b'_'),
        b'l' => number(hour12, 2, b'_'),
        b'j' => number(c.yearday + 1, 3, b'0'),
        b'm' => number(c.month, 2, b'0'),
        b'M' => number(c.minute, 2, b'0'),
        b'S' => number(c.second, 2, b'0'),
        b'u' => number((c.weekday + 6).rem_euclid(7) + 1, 1, b'0'),
        b'w' => number(c.weekday, 1, b'0'),
        b'U' => number((c.yearday - c.weekday + 7) / 7, 2, b'0'),
        b'W' => number((c.yearday - (c.weekday - 1).rem_euclid(7) + 7) / 7, 2, b'0'),
        b'V' => number(iso_week(c).1, 2, b'0'),
        b'G' => number(iso_week(c).0, 1, b'0'),
        b'g' => number(iso_week(c).0.rem_euclid(100), 2, b'0'),
        b'y' => number(c.year.rem_euclid(100), 2, b'0'),
        b'Y' => number(c.year, 1, b'0'),
        b'C' => number(c.year.div_euclid(100), 1, b'0'),
        b's' => number(
            days_from_civil(c.year, c.month, c.day) * 86_400
                + c.hour * 3600
                + c.minute * 60
                + c.second,
            1,
            b'0',
        ),
        _ => return push_words(out, c, conversion, style),
    }
    true
}

fn push_words(out: &mut Vec<u8>, c: &Calendar, conversion: u8, style: Style) -> bool {
    let noon = if c.hour > 11 { "PM" } else { "AM" };
    let upper = Style {
        upper: style.upper || style.swap,
        ..style
    };
    let whole = |format: &[u8]| String::from_utf8_lossy(&strftime(c, format)).into_owned();
    match conversion {
        b'a' => push_text(out, named(&DAYS, c.weekday, true), upper),
        b'A' => push_text(out, named(&DAYS, c.weekday, false), upper),
        b'b' | b'h' => push_text(out, named(&MONTHS, c.month - 1, true), upper),
        b'B' => push_text(out, named(&MONTHS, c.month - 1, false), upper),
        b'p' if style.swap => push_text(out, &noon.to_ascii_lowercase(), style),
        b'p' => push_text(out, noon, style),
        b'P' => push_text(
            out,
            &noon.to_ascii_lowercase(),
            Style {
                upper: false,
                ..style
            },
        ),
        b'c' => push_text(out, &whole(b"%a %b %e %H:%M:%S %Y"), style),
        b'D' | b'x' => push_text(out, &whole(b"%m/%d/%y"), style),
        b'F' => push_text(out, &whole(b"%Y-%m-%d"), style),
        b'R' => push_text(out, &whole(b"%H:%M"), style),
        b'T' | b'X' => push_text(out, &whole(b"%H:%M:%S"), style),
        b'r' => push_text(out, &whole(b"%I:%M:%S %p"), style),
        b'n' => push_text(out, "\n", style),
        b't' => push_text(out, "\t", style),
        b'%' => push_text(out, "%", style),
        b'z' => {
            push_text(out, "+", style);
            push_number(out, 0, 4, b'0', style);
        }
        b'Z' if style.swap => push_text(out, "utc", style),
        b'Z' => push_text(out, "UTC", style),
        _ => return false,
    }
    true
}
