//! Sizes with units: `2G`, `1.5 GB`, `100`.

/// A size in whole units of `base` bytes (rounded up), and whether a unit was written.
///
/// `None` when the text is not a size.
#[must_use]
pub fn size(text: &str, base: i64) -> Option<(i64, bool)> {
    let (value, unit, rest) = leading(text, base)?;
    rest.is_empty().then_some((value, unit))
}

/// A size at the start of a text that may go on with a comma.
#[must_use]
pub fn leading(text: &str, base: i64) -> Option<(i64, bool, &str)> {
    let text = text.trim_ascii_start();
    if let Some(rest) = text.strip_prefix('-') {
        return scaled(rest, base, -1);
    }
    scaled(text, base, 1)
}

fn scaled(text: &str, base: i64, sign: i64) -> Option<(i64, bool, &str)> {
    let digits = text.bytes().take_while(|c| c.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let mut end = digits;
    let mut fraction = 0.0;
    if text.as_bytes().get(end) == Some(&b'.') {
        let more = text[end + 1..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        if more > 0 {
            fraction = text[end..=end + more].parse().unwrap_or(0.0);
            end += 1 + more;
        }
    }
    let number: i64 = text[..digits].parse().ok()?;
    let rest = text[end..].trim_ascii_start();
    let letter = rest.bytes().next().map(|c| c.to_ascii_uppercase());
    let scale: Option<i64> = match letter {
        Some(b'K') => Some(1 << 10),
        Some(b'M') => Some(1 << 20),
        Some(b'G') => Some(1 << 30),
        Some(b'T') => Some(1 << 40),
        Some(b'B') => Some(1),
        _ => None,
    };
    let mut after = rest;
    if scale.is_some() {
        after = &rest[1..];
        if letter != Some(b'B') {
            after = after.strip_prefix(['b', 'B']).unwrap_or(after);
        }
    }
    after = after.trim_ascii_start();
    if !after.is_empty() && !after.starts_with(',') {
        return None;
    }
    let scale = scale.unwrap_or(base);
    let bytes = number
        .checked_mul(scale)?
        .checked_add((fraction * scale as f64) as i64)?;
    Some((
        (sign * bytes).checked_add(base - 1)? / base,
        letter.is_some_and(|c| b"KMGTB".contains(&c)),
        after,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("2G", 1 << 20), Some((2048, true)));
        assert_eq!(size("1.5 GB", 1 << 20), Some((1536, true)));
        assert_eq!(size("100", 1 << 20), Some((100, false)));
        assert_eq!(size("1", 1024), Some((1, false)));
        assert_eq!(size("1025B", 1024), Some((2, true)));
        assert_eq!(size("2 * 3", 1024), None);
        assert_eq!(leading("1G, 2G", 1 << 20), Some((1024, true, ", 2G")));
    }
}
