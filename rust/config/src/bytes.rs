//! Bytes that are no UTF-8, in text that is.
//!
//! Descriptions are read as text, but file names and arguments are bytes. A byte that is not part of a UTF-8 character
//! is held in text as one character of the private planes (U+10FD80 for 0x80, up to U+10FDFF for 0xFF), and is a byte
//! again in job ads and in calls of the system. Such a character in the text itself is held as its four bytes, so that
//! nothing is lost.

use std::borrow::Cow;

const HELD: u32 = 0x0010_FD00;
/// The first three bytes that all held bytes have in common, but for the last bit.
const MARK: [u8; 2] = [0xF4, 0x8F];

fn held(byte: u8) -> char {
    char::from_u32(HELD + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn is_held(letter: char) -> bool {
    (HELD + 0x80..=HELD + 0xFF).contains(&u32::from(letter))
}

/// Bytes as text; those that are no UTF-8 are held.
#[must_use]
pub fn hold(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains(is_held)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if is_held(letter) {
                let mut four = [0; 4];
                text.extend(letter.encode_utf8(&mut four).bytes().map(held));
            } else {
                text.push(letter);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(held));
    }
    Cow::Owned(text)
}

/// Text as the bytes that it stands for.
#[must_use]
pub fn release(text: &str) -> Cow<'_, [u8]> {
    let found = text.as_bytes().windows(2).any(|pair| pair == MARK);
    if !found || !text.contains(is_held) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        if is_held(letter) {
            bytes.push(u32::from(letter).to_le_bytes()[0]);
        } else {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Cow::Owned(bytes)
}

#[cfg(test)]
mod tests {
    use super::{hold, release};

    #[test]
    fn every_sequence_of_bytes_survives() {
        let cases: [&[u8]; 6] = [
            b"",
            b"plain",
            "für \u{10FFFD}".as_bytes(),
            b"f\xfcr",
            b"\xf4\x8f\xb6\x80 and \x80",
            b"\xf4\x8f",
        ];
        for bytes in cases {
            assert_eq!(release(&hold(bytes)), bytes);
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(release(&hold(&all)), all);
    }

    #[test]
    fn plain_text_is_left_alone() {
        assert!(matches!(
            hold("für".as_bytes()),
            std::borrow::Cow::Borrowed(_)
        ));
        assert!(matches!(release("für"), std::borrow::Cow::Borrowed(_)));
    }
}
