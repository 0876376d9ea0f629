//! Moments and spans: calendar arithmetic, their texts, and `strftime`.

use crate::lexer::is_space;
use crate::number;
use crate::value::AbsTime;
use std::io::Write;

/// A moment taken apart, as C's `struct tm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Calendar {
    pub year: i64,
    /// 1 to 12
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    /// 0 is Sunday
    pub weekday: i64,
    /// 0 is the first of January
    pub yearday: i64,
}

/// Days since 1970-01-01 of a date; month and day may be out of range.
#[must_use]
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12) + 1;
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468 + day - 1
}

impl Calendar {
    /// The calendar fields of a count of seconds since the epoch.
    #[must_use]
    pub fn from_secs(secs: i64) -> Self {
        let days = secs.div_euclid(86_400);
        let rest = secs.rem_euclid(86_400);
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let doe = z.rem_euclid(146_097);
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = yoe + era * 400 + i64::from(month <= 2);
        Self {
            year,
            month,
            day: doy - (153 * mp + 2) / 5 + 1,
            hour: rest / 3600,
            minute: rest % 3600 / 60,
            second: rest % 60,
            weekday: (days + 4).rem_euclid(7),
            yearday: days - days_from_civil(year, 1, 1),
        }
    }

    /// Sets weekday and day of the year from the date, with the reference's arithmetic.
    pub fn number_days(&mut self) {
        let fixed = |month: i64, day: i64| {
            let y = self.year;
            let leap = y % 4 == 0 && !matches!(y % 400, 100 | 200 | 300);
            let adjust = if month <= 2 {
                0
            } else if leap {
                -1
            } else {
                -2
            };
            365 * (y - 1) + (y - 1) / 4 - (y - 1) / 100
                + (y - 1) / 400
                + (367 * month - 362) / 12
                + adjust
                + day
        };
        let today = fixed(self.month, self.day);
        self.yearday = today - fixed(1, 1);
        self.weekday = today % 7;
    }
}

fn two(text: &[u8], at: usize, n: usize) -> i64 {
    let digits = text[at..(at + n).min(text.len())]
        .iter()
        .skip_while(|b| is_space(**b));
    let mut value = 0;
    for b in digits.take_while(|b| b.is_ascii_digit()) {
        value = value * 10 + i64::from(b - b'0');
    }
    value
}

/// The zone at the end of a text: its seconds east, and where it begins. `Some(None)` is no zone.
fn split_zone(text: &[u8]) -> (Vec<u8>, Option<i32>) {
    let mut text = text.to_vec();
    let len = text.len();
    let last = text.iter().rposition(|b| !is_space(*b));
    if let Some(i) = last
        && i > 0
        && matches!(text[i], b'z' | b'Z')
    {
        text.remove(i);
        return (text, Some(0));
    }
    let sign = |b: u8| matches!(b, b'+' | b'-');
    if len > 5 && sign(text[len - 5]) {
        // +0130
    } else if len > 6 && sign(text[len - 6]) && text[len - 3] == b':' {
        text.remove(len - 3);
    } else {
        return (text, None);
    }
    let zone = text[text.len() - 5..].to_vec();
    if !sign(zone[0]) || !zone[1..].iter().all(u8::is_ascii_digit) {
        return (text, None);
    }
    text.truncate(text.len() - 5);
    let seconds = two(&zone, 1, 2) * 3600 + two(&zone, 3, 2) * 60;
    let seconds = if zone[0] == b'-' { -seconds } else { seconds };
    (text, Some(seconds as i32))
}

/// Reads `2003-01-25T09:00:00-06:00` and looser forms; a missing month is January, a missing day the
/// day before the first. Without a zone it is UTC.
#[must_use]
pub fn parse_abs(text: &[u8]) -> Option<AbsTime> {
    let (text, zone) = split_zone(text);
    let len = text.len();
    let next = |mut i: usize| {
        while i < len && !text[i].is_ascii_digit() {
            i += 1;
        }
        i
    };
    let mut i = next(0);
    if i + 4 > len {
        return None;
    }
    let year = two(&text, i, 4);
    i = next(i + 4);
    let mut fields = [1, 0, 0, 0, 0];
    for field in &mut fields {
        if i + 2 <= len {
            *field = two(&text, i, 2);
            i += 2;
        }
        i = next(i);
    }
    if i < len {
        return None;
    }
    let [month, day, hour, minute, second] = fields;
    let local = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    if local == -1 {
        return None;
    }
    let offset_s = zone.unwrap_or(0);
    if offset_s == -1 {
        return None;
    }
    Some(AbsTime {
        secs: local - i64::from(offset_s),
        offset_s,
    })
}

struct Backwards<'t> {
    text: &'t [u8],
    /// One past the byte looked at.
    end: usize,
}

impl Backwards<'_> {
    fn skip_space(&mut self) {
        while self.end > 0 && is_space(self.text[self.end - 1]) {
            self.end -= 1;
        }
    }
    fn last(&self) -> u8 {
        if self.end == 0 {
            0
        } else {
            self.text[self.end - 1]
        }
    }
    fn take_digits(&mut self) -> &[u8] {
        let end = self.end;
        while self.last().is_ascii_digit() {
            self.end -= 1;
        }
        &self.text[self.end..end]
    }
    /// An integer marked by one of `marks` behind it.
    fn marked(&mut self, marks: &[u8]) -> i32 {
        self.skip_space();
        if self.end == 0 || !marks.contains(&self.last()) {
            return 0;
        }
        self.end -= 1;
        self.skip_space();
        let digits = self.take_digits();
        std::str::from_utf8(digits)
            .ok()
            .and_then(|d| d.parse().ok())
            .unwrap_or(0)
    }
}

/// Reads `[-][days+]hh:mm:ss[.fff]` or `1d 2h 3m 4s`, from the end; any leading part may be missing.
#[must_use]
pub fn parse_rel(text: &[u8]) -> Option<f64> {
    let mut b = Backwards {
        text,
        end: text.len(),
    };
    b.skip_space();
    let mut secs = 0.0;
    if matches!(b.last(), b's' | b'S') || b.last().is_ascii_digit() {
        if !b.last().is_ascii_digit() {
            b.end -= 1;
        }
        b.skip_space();
        let end = b.end;
        b.take_digits();
        if b.last() == b'.' {
            b.end -= 1;
            b.take_digits();
        }
        secs = number::strtod(&text[b.end..end]).0;
    }
    let minutes = b.marked(b"mM:");
    let hours = b.marked(b"hH:");
    let days = b.marked(b"dD+");
    b.skip_space();
    let negative = b.last() == b'-';
    if negative {
        b.end -= 1;
    }
    b.skip_space();
    if b.end > 0 {
        return None;
    }
    let whole = days
        .wrapping_mul(86_400)
        .wrapping_add(hours.wrapping_mul(3600))
        .wrapping_add(minutes.wrapping_mul(60));
    let total = f64::from(whole) + secs;
    Some(if negative { -total } else { total })
}

/// `2020-01-02T03:04:05-00:00`
pub fn push_abs(out: &mut Vec<u8>, time: AbsTime) {
    let zone = time.offset_s;
    let c = Calendar::from_secs(time.secs.wrapping_add(i64::from(zone)));
    let sign = if zone > 0 { '+' } else { '-' };
    let zone = i64::from(zone).abs();
    let _ = write!(
        out,
        "{}-{:02}-{:02}T{:02}:{:02}:{:02}{sign}{:02}:{:02}",
        c.year,
        c.month,
        c.day,
        c.hour,
        c.minute,
        c.second,
        zone / 3600,
        zone / 60 % 60
    );
}

/// `[-][days+]hh:mm:ss`, only as many parts as needed.
pub fn push_rel(out: &mut Vec<u8>, secs: f64) {
    let mut secs = secs;
    if secs < 0.0 {
        out.push(b'-');
        secs = -secs;
    }
    let fraction = secs - secs.floor();
    let whole = crate::ops::real_to_i32(secs);
    let (days, rest) = (whole / 86_400, whole % 86_400);
    let (hours, rest) = (rest / 3600, rest % 3600);
    let (minutes, seconds) = (rest / 60, rest % 60);
    if days != 0 {
        let _ = write!(out, "{days}+{hours:02}:{minutes:02}:");
    } else if hours != 0 {
        let _ = write!(out, "{hours:02}:{minutes:02}:");
    } else if minutes != 0 {
        let _ = write!(out, "{minutes:02}:");
    }
    if fraction == 0.0 {
        let _ = write!(out, "{seconds:02}");
    } else {
        let mut text = Vec::new();
        number::push_general(&mut text, f64::from(seconds) + fraction, 6, false);
        if text.len() < 2 {
            out.push(b'0');
        }
        out.extend_from_slice(&text);
    }
}

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
                b'_' | b'-' | b'0' | b'+' => style.pad = Some(*flag),
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
        if matches!(format.get(at), Some(b'E' | b'O')) {
            at += 1;
        }
        let Some(&conversion) = format.get(at) else {
            out.extend_from_slice(&format[start..]);
            break;
        };
        at += 1;
        if !push_field(&mut out, c, conversion, style) {
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
    let week_days = |yday: i64, wday: i64| yday - (yday - wday + 4 + 3 * 7).rem_euclid(7) + 3;
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
    let hour12 = match c.hour % 12 {
        0 => 12,
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
        b'C' => number(c.year.div_euclid(100), 2, b'0'),
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
        b'z' => push_text(out, "+0000", style),
        b'Z' => push_text(out, "UTC", style),
        _ => return false,
    }
    true
}
