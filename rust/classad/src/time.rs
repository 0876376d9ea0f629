//! Moments and spans: calendar arithmetic and their texts.

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

    /// Sets weekday and day of the year from the date, with HTCondor's arithmetic of 32 bits.
    pub fn number_days(&mut self) {
        let year = self.year as i32;
        let leap = year % 4 == 0 && !matches!(year % 400, 100 | 200 | 300);
        let before = year.wrapping_sub(1);
        let years = before
            .wrapping_mul(365)
            .wrapping_add(before / 4 - before / 100 + before / 400);
        let fixed = |month: i32, day: i32| {
            let adjust = match (month <= 2, leap) {
                (true, _) => 0,
                (false, true) => -1,
                (false, false) => -2,
            };
            let months = month.wrapping_mul(367).wrapping_sub(362) / 12;
            years
                .wrapping_add(months)
                .wrapping_add(adjust)
                .wrapping_add(day)
        };
        let today = fixed(self.month as i32, self.day as i32);
        self.yearday = i64::from(today.wrapping_sub(fixed(1, 1)));
        self.weekday = i64::from(today % 7);
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

/// The zone at the end of a text: its seconds east, and where it begins. `Some(None)` is not a zone.
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
