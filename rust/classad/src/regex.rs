//! Regular expressions: PCRE2, interpreted, with its own limits on time and memory.

use pcre2_sys as pcre2;
use std::ptr;

/// How much backtracking one match may do (a tenth of PCRE2's default).
const MATCH_LIMIT: u32 = 1_000_000;
/// How many KiB of heap one match may use.
const HEAP_LIMIT_KIB: u32 = 16 * 1024;

/// What a pattern was compiled with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Options {
    pub caseless: bool,
    pub multiline: bool,
    pub dotall: bool,
    pub extended: bool,
    pub ungreedy: bool,
}

impl Options {
    /// Options from letters; unknown ones are ignored.
    #[must_use]
    pub fn from_letters(letters: &[u8], ignore_case: bool) -> Self {
        let has = |letter: u8| {
            letters.contains(&letter)
                || (ignore_case && letters.contains(&letter.to_ascii_uppercase()))
        };
        Self {
            caseless: has(b'i'),
            multiline: has(b'm'),
            dotall: has(b's'),
            extended: has(b'x'),
            ungreedy: false,
        }
    }

    fn bits(self) -> u32 {
        let mut bits = 0;
        for (on, bit) in [
            (self.caseless, pcre2::PCRE2_CASELESS),
            (self.multiline, pcre2::PCRE2_MULTILINE),
            (self.dotall, pcre2::PCRE2_DOTALL),
            (self.extended, pcre2::PCRE2_EXTENDED),
            (self.ungreedy, pcre2::PCRE2_UNGREEDY),
        ] {
            if on {
                bits |= bit;
            }
        }
        bits
    }
}

/// A compiled pattern.
pub struct Pattern {
    code: *mut pcre2::pcre2_code_8,
    data: *mut pcre2::pcre2_match_data_8,
    context: *mut pcre2::pcre2_match_context_8,
}

// SAFETY: the three objects belong to this value alone, and PCRE2 binds none of them to a thread.
unsafe impl Send for Pattern {}

/// The outcome of one match attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum Match {
    /// Group boundaries, the whole match first; only up to the last group that took part.
    Found(Vec<Option<(usize, usize)>>),
    /// No match.
    None,
    /// A limit was hit, or the start is past the end.
    Failed,
}

impl Pattern {
    /// Compiles a pattern; `None` if it is malformed.
    #[must_use]
    pub fn new(pattern: &[u8], options: Options) -> Option<Self> {
        let (mut error, mut offset) = (0, 0);
        // SAFETY: the pattern's pointer and length describe one live slice, and the two out-pointers are
        // live locals; a null context means defaults.
        let code = unsafe {
            pcre2::pcre2_compile_8(
                pattern.as_ptr(),
                pattern.len(),
                options.bits(),
                &mut error,
                &mut offset,
                ptr::null_mut(),
            )
        };
        if code.is_null() {
            return None;
        }
        // SAFETY: `code` was just compiled; null contexts mean defaults. The results are freed in `drop`.
        unsafe {
            let data = pcre2::pcre2_match_data_create_from_pattern_8(code, ptr::null_mut());
            let context = pcre2::pcre2_match_context_create_8(ptr::null_mut());
            let this = Self {
                code,
                data,
                context,
            };
            if data.is_null() || context.is_null() {
                return None;
            }
            pcre2::pcre2_set_match_limit_8(context, MATCH_LIMIT);
            pcre2::pcre2_set_heap_limit_8(context, HEAP_LIMIT_KIB);
            Some(this)
        }
    }

    /// Matches at or after `start`. `again` is for a search that goes on after an empty match: only a
    /// match right here that is not empty counts.
    #[must_use]
    pub fn find(&self, text: &[u8], start: usize, again: bool) -> Match {
        self.run(
            text,
            start,
            if again {
                pcre2::PCRE2_NOTEMPTY_ATSTART | pcre2::PCRE2_ANCHORED
            } else {
                0
            },
        )
    }

    /// The first match that is not empty.
    #[must_use]
    pub fn find_nonempty(&self, text: &[u8]) -> Match {
        self.run(text, 0, pcre2::PCRE2_NOTEMPTY)
    }

    fn run(&self, text: &[u8], start: usize, options: u32) -> Match {
        if start > text.len() {
            return Match::Failed;
        }
        // SAFETY: the text's pointer and length describe one live slice with `start` inside; code, data and
        // context are ours and live. PCRE2 keeps no pointer to the text that we use after this call.
        let status = unsafe {
            pcre2::pcre2_match_8(
                self.code,
                text.as_ptr(),
                text.len(),
                start,
                options,
                self.data,
                self.context,
            )
        };
        if status == pcre2::PCRE2_ERROR_NOMATCH {
            return Match::None;
        }
        if status < 0 {
            return Match::Failed;
        }
        // SAFETY: after a match that returned `status`, the vector holds at least that many pairs.
        let pairs = unsafe {
            let vector = pcre2::pcre2_get_ovector_pointer_8(self.data);
            std::slice::from_raw_parts(vector, status as usize * 2)
        };
        Match::Found(
            pairs
                .chunks_exact(2)
                .map(|p| (p[0] <= p[1] && p[1] <= text.len()).then_some((p[0], p[1])))
                .collect(),
        )
    }
}

impl Drop for Pattern {
    fn drop(&mut self) {
        // SAFETY: each was created by PCRE2, belongs to this value alone, and may be null.
        unsafe {
            pcre2::pcre2_match_data_free_8(self.data);
            pcre2::pcre2_match_context_free_8(self.context);
            pcre2::pcre2_code_free_8(self.code);
        }
    }
}
