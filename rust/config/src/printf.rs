//! One-conversion `printf` formats, as `$INT`, `$REAL` and `$STRING` take them.

/// What a format is asked to print.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// For `%d %i %o %u %x %X %c %p`.
    Int(i64),
    /// For `%e %E %f %F %g %G %a %A`.
    Real(f64),
    /// For `%s`.
    Text(&'a str),
}

#[derive(Clone, Copy, Debug, Default)]
struct Spec {
    alternate: bool,
    zero: bool,
    left: bool,
    space: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
    length: Length,
    letter: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Length {
    #[default]
    Word,
    Half,
    Byte,
    Long,
}

struct Parts<'f> {
    before: &'f str,
    spec: Spec,
    after: &'f str,
}

fn number(bytes: &[u8], at: &mut usize) -> usize {
    let mut number = 0_usize;
    while let Some(digit) = bytes.get(*at).filter(|c| c.is_ascii_digit()) {
        number = (number * 10 + usize::from(digit - b'0')).min(4096);
        *at += 1;
    }
    number
}

/// The first conversion of a format, or `None`.
fn conversion(format: &str, from: usize) -> Option<(usize, usize, Spec)> {
    let bytes = format.as_bytes();
    let mut at = from;
    loop {
        at += bytes.get(at..)?.iter().position(|&c| c == b'%')?;
        let start = at;
        at += 1;
        let mut spec = Spec::default();
        while let Some(flag) = bytes.get(at) {
            match flag {
                b'#' => spec.alternate = true,
                b'0' => spec.zero = true,
                b'-' => spec.left = true,
                b' ' => spec.space = true,
                b'+' => spec.plus = true,
                b'\'' => {}
                _ => break,
            }
            at += 1;
        }
        spec.width = number(bytes, &mut at);
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            spec.precision = Some(number(bytes, &mut at));
        }
        while let Some(length) = bytes.get(at) {
            spec.length = match length {
                b'h' if spec.length == Length::Half => Length::Byte,
                b'h' => Length::Half,
                b'l' | b'L' | b'q' | b'j' | b'z' | b't' => Length::Long,
                _ => break,
            };
            at += 1;
        }
        spec.letter = *bytes.get(at)?;
        at += 1;
        if spec.letter != b'%' {
            return Some((start, at, spec));
        }
    }
}

fn parts<'f>(format: &'f str, arg: &Arg<'_>) -> Option<Parts<'f>> {
    let (start, end, spec) = conversion(format, 0)?;
    let fits = match arg {
        Arg::Int(_) => b"diouxXcCp".contains(&spec.letter),
        Arg::Real(_) => b"eEfFgGaA".contains(&spec.letter),
        Arg::Text(_) => spec.letter == b's',
    };
    let more =
        conversion(format, end).is_some_and(|(_, _, spec)| spec.letter.is_ascii_alphabetic());
    if !fits || more || !format.is_char_boundary(end) {
        return None;
    }
    Some(Parts {
        before: &format[..start],
        spec,
        after: &format[end..],
    })
}

/// Prints `arg` by `format`, or `None` when the format does not fit: no or several conversions, or a wrong letter.
#[must_use]
pub fn print(format: &str, arg: Arg<'_>) -> Option<String> {
    let Parts {
        before,
        spec,
        after,
    } = parts(format, &arg)?;
    let (sign, body, numeric) = match arg {
        Arg::Int(number) if spec.letter | 0x20 == b'c' => {
            (String::new(), char::from(number as u8).to_string(), false)
        }
        Arg::Int(number) => {
            let (sign, body) = integer(&spec, number);
            (sign, body, spec.precision.is_none())
        }
        Arg::Real(number) => {
            let (sign, body) = real(&spec, number);
            (sign, body, number.is_finite())
        }
        Arg::Text(text) => {
            let kept = spec.precision.map_or(text, |most| {
                let end = (0..=most.min(text.len()))
                    .rev()
                    .find(|&at| text.is_char_boundary(at))
                    .unwrap_or(0);
                &text[..end]
            });
            (String::new(), kept.to_owned(), false)
        }
    };
    let fill = spec.width.saturating_sub(sign.len() + body.len());
    let mut out = plain(before);
    if spec.left {
        out.push_str(&sign);
        out.push_str(&body);
        out.extend(std::iter::repeat_n(' ', fill));
    } else if spec.zero && numeric {
        out.push_str(&sign);
        out.extend(std::iter::repeat_n('0', fill));
        out.push_str(&body);
    } else {
        out.extend(std::iter::repeat_n(' ', fill));
        out.push_str(&sign);
        out.push_str(&body);
    }
    out.push_str(&plain(after));
    Some(out)
}

/// Text beside the conversion: `%%` is a percent sign, a single one at the end is nothing.
fn plain(text: &str) -> String {
    let signs = text.len() - text.trim_end_matches('%').len();
    text[..text.len() - signs % 2].replace("%%", "%")
}

fn sign_of(spec: &Spec, negative: bool) -> String {
    if negative {
        "-".into()
    } else if spec.plus {
        "+".into()
    } else if spec.space {
        " ".into()
    } else {
        String::new()
    }
}

fn integer(spec: &Spec, number: i64) -> (String, String) {
    let signed = match spec.length {
        Length::Word => i64::from(number as i32),
        Length::Half => i64::from(number as i16),
        Length::Byte => i64::from(number as i8),
        Length::Long => number,
    };
    let unsigned = match spec.length {
        Length::Word => u64::from(number as u32),
        Length::Half => u64::from(number as u16),
        Length::Byte => u64::from(number as u8),
        Length::Long => number as u64,
    };
    // A pointer has the whole number, whatever the length says.
    let unsigned = if spec.letter == b'p' {
        number as u64
    } else {
        unsigned
    };
    let (mut sign, mut body) = match spec.letter {
        b'd' | b'i' => (sign_of(spec, signed < 0), signed.unsigned_abs().to_string()),
        b'o' => (String::new(), format!("{unsigned:o}")),
        b'x' => (String::new(), format!("{unsigned:x}")),
        b'X' => (String::new(), format!("{unsigned:X}")),
        b'p' if number == 0 => (String::new(), "(nil)".to_owned()),
        b'p' => (sign_of(spec, false) + "0x", format!("{unsigned:x}")),
        _ => (String::new(), unsigned.to_string()),
    };
    if let Some(least) = spec.precision {
        if least == 0 && unsigned == 0 {
            body.clear();
        }
        if body.len() < least {
            body.insert_str(0, &"0".repeat(least - body.len()));
        }
    }
    if spec.alternate && unsigned != 0 {
        match spec.letter {
            b'x' => sign.push_str("0x"),
            b'X' => sign.push_str("0X"),
            b'o' if !body.starts_with('0') => body.insert(0, '0'),
            _ => {}
        }
    }
    (sign, body)
}

fn with_exponent(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let value: i32 = exponent.parse().unwrap_or(0);
    let sign = if value < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", value.abs())
}

fn shortest(number: f64, precision: usize, keep_zeros: bool) -> String {
    let significant = precision.max(1);
    let probe = format!("{:.*e}", significant - 1, number);
    let exponent: i32 = probe
        .split_once('e')
        .and_then(|(_, e)| e.parse().ok())
        .unwrap_or(0);
    let strip = |text: String| {
        if keep_zeros || !text.contains('.') {
            return text;
        }
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if exponent < -4 || exponent >= significant as i32 {
        let text = with_exponent(number, significant - 1);
        let (mantissa, rest) = text.split_at(text.find('e').unwrap_or(text.len()));
        format!("{}{rest}", strip(mantissa.to_owned()))
    } else {
        let decimals = usize::try_from(significant as i32 - 1 - exponent).unwrap_or(0);
        strip(format!("{number:.decimals$}"))
    }
}

/// The digits of `%a`: one before the point, and a power of two.
fn hexadecimal(size: f64, spec: &Spec) -> String {
    const DIGITS: usize = 13;
    let bits = size.to_bits();
    let exponent = (bits >> 52) as i32;
    let (mut digits, power) = match (exponent, bits) {
        (0, 0) => (0, 0),
        (0, _) => (bits, -1022),
        _ => (bits & ((1 << 52) - 1) | 1 << 52, exponent - 1023),
    };
    let kept = spec.precision.unwrap_or(DIGITS).min(400);
    if kept < DIGITS {
        // To the nearest, halves to the even one.
        let cut = 4 * (DIGITS - kept) as u32;
        let (whole, rest, half) = (digits >> cut, digits & ((1 << cut) - 1), 1 << (cut - 1));
        let up = rest > half || (rest == half && whole & 1 == 1);
        digits = (whole + u64::from(up)) << cut;
    }
    let fraction = format!("{:013x}", digits & ((1 << 52) - 1));
    let fraction = match spec.precision {
        None => fraction.trim_end_matches('0').to_owned(),
        Some(_) => format!("{fraction:0<kept$}")[..kept].to_owned(),
    };
    let point = if fraction.is_empty() && !spec.alternate {
        ""
    } else {
        "."
    };
    format!("{}{point}{fraction}p{power:+}", digits >> 52)
}

fn real(spec: &Spec, number: f64) -> (String, String) {
    let mut sign = sign_of(spec, number.is_sign_negative() && !number.is_nan());
    let upper = spec.letter.is_ascii_uppercase();
    let body = if number.is_nan() {
        "nan".to_owned()
    } else if number.is_infinite() {
        "inf".to_owned()
    } else {
        let size = number.abs();
        let precision = spec.precision.unwrap_or(6).min(400);
        match spec.letter | 0x20 {
            b'f' => format!("{size:.precision$}"),
            b'e' => with_exponent(size, precision),
            b'a' => {
                sign.push_str(if upper { "0X" } else { "0x" });
                hexadecimal(size, spec)
            }
            _ => shortest(size, precision, spec.alternate),
        }
    };
    (sign, if upper { body.to_uppercase() } else { body })
}

/// A real number with 16 significant digits, as `%.16G` prints it.
#[must_use]
pub fn real_16(number: f64) -> String {
    print("%.16G", Arg::Real(number)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_as_the_c_library() {
        let int = |format, number| print(format, Arg::Int(number));
        assert_eq!(int("%04d", 12).as_deref(), Some("0012"));
        assert_eq!(int("Area=%d!", 1512).as_deref(), Some("Area=1512!"));
        assert_eq!(int("%x", -1).as_deref(), Some("ffffffff"));
        assert_eq!(int("%lld", -1).as_deref(), Some("-1"));
        assert_eq!(int("%+5d|", 3).as_deref(), Some("   +3|"));
        assert_eq!(int("%s", 3), None);
        assert_eq!(int("%d%d", 3), None);
        assert_eq!(int("100%%%d", 3).as_deref(), Some("100%3"));
        let real = |format, number| print(format, Arg::Real(number));
        assert_eq!(real("%.3f", 56.0).as_deref(), Some("56.000"));
        assert_eq!(real("%g", 1e10).as_deref(), Some("1e+10"));
        assert_eq!(real("%e", 12345.678).as_deref(), Some("1.234568e+04"));
        assert_eq!(real("%a", 2.5).as_deref(), Some("0x1.4p+1"));
        assert_eq!(real("%+.1A", 1.97).as_deref(), Some("+0X2.0P+0"));
        assert_eq!(real("%09a", 0.5).as_deref(), Some("0x0001p-1"));
        assert_eq!(int("%p", 5).as_deref(), Some("0x5"));
        assert_eq!(int("%d%", 5).as_deref(), Some("5"));
        assert_eq!(int("%d%%%", 5).as_deref(), Some("5%"));
        assert_eq!(real_16(56.68), "56.68");
        assert_eq!(real_16(12.0), "12");
        assert_eq!(
            print("%-15s|", Arg::Text("ABCDEF")).as_deref(),
            Some("ABCDEF         |")
        );
    }
}
