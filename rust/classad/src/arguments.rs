//! Argument lists in HTCondor's two notations, as job ads, submit descriptions and the configuration have them.
//!
//! Version 1: words separated by blanks, nothing quotes. Version 2: single quotes keep blanks in a word, and a doubled
//! single quote inside them is one; where it stands among text of version 1, the whole is in double quotes, and a
//! double quote inside is doubled. HTCondor manual, condor_submit, "arguments".

/// Where a single quote without its end stands: the byte behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenQuote(pub usize);

pub(crate) fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r')
}

/// The words of version 2, without outer double quotes.
///
/// # Errors
/// For a quote without its end.
pub fn split_v2(text: &[u8]) -> Result<Vec<Vec<u8>>, OpenQuote> {
    let mut all = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\'' => at = quoted(text, at + 1, word.get_or_insert_default())?,
            b if is_blank(b) => all.extend(word.take()),
            b => word.get_or_insert_default().push(b),
        }
        at += 1;
    }
    all.extend(word);
    Ok(all)
}

/// Adds what stands in quotes from `start` on to a word; the place of the quote that ends it.
fn quoted(text: &[u8], start: usize, word: &mut Vec<u8>) -> Result<usize, OpenQuote> {
    let mut at = start;
    loop {
        match (text.get(at), text.get(at + 1)) {
            (None, _) => return Err(OpenQuote(start)),
            (Some(b'\''), Some(b'\'')) => {
                word.push(b'\'');
                at += 2;
            }
            (Some(b'\''), _) => return Ok(at),
            (Some(b), _) => {
                word.push(*b);
                at += 1;
            }
        }
    }
}

/// The words of version 1.
#[must_use]
pub fn split_v1(text: &[u8]) -> Vec<Vec<u8>> {
    text.split(|b| is_blank(*b))
        .filter(|w| !w.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

/// Version 2 of some words: quotes around each blank and single quote.
pub fn join_v2<'w>(words: impl IntoIterator<Item = &'w [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, word) in words.into_iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        push_quoted(&mut out, word);
    }
    out
}

fn push_quoted(out: &mut Vec<u8>, word: &[u8]) {
    if word.is_empty() {
        out.extend_from_slice(b"''");
    }
    let start = out.len();
    for &b in word {
        if !is_blank(b) && b != b'\'' {
            out.push(b);
            continue;
        }
        // A quoted section that ends right here goes on.
        if out.len() > start && out.last() == Some(&b'\'') {
            out.pop();
        } else {
            out.push(b'\'');
        }
        if b == b'\'' {
            out.push(b'\'');
        }
        out.push(b);
        out.push(b'\'');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_keep_blanks_and_a_doubled_one_is_itself() {
        let words = split_v2(b"a 'b c'd 'it''s' ''").unwrap();
        assert_eq!(words, [&b"a"[..], b"b cd", b"it's", b""]);
        assert_eq!(split_v2(b"a 'b"), Err(OpenQuote(3)));
    }

    proptest! {
        #[test]
        fn any_words_survive(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..8), 0..6)) {
            let text = join_v2(words.iter().map(Vec::as_slice));
            prop_assert_eq!(split_v2(&text).unwrap(), words);
        }
    }
}
