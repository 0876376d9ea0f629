//! Regular expressions: PCRE2, interpreted, with its own limits on time and memory, and with the work of each match
//! counted in steps.
//!
//! PCRE2 says whether a match reached its limit of backtracking, not how much of it was used, and it counts anew for each
//! place of the text where a match may begin. So patterns are compiled with a call-out before each item, where the work
//! since the last one is counted: an event, and the bytes that the item went over. A pattern that is too long to be
//! compiled so is bounded by what its limit of backtracking allows at most.

use pcre2_sys as pcre2;
use std::ffi::{c_int, c_void};
use std::ptr;

/// How much backtracking one match may do from one place of the text (a tenth of PCRE2's default).
const MATCH_LIMIT: u32 = 1_000_000;
/// How many KiB of heap one match may use.
const HEAP_LIMIT_KIB: u32 = 16 * 1024;
/// The limits of backtracking that a pattern without call-outs is tried with, one after the other.
const LIMITS: [u32; 7] = [256, 1024, 4096, 16_384, 65_536, 262_144, MATCH_LIMIT];
/// Units of work in one step: going to the next item of a pattern is one, as going over [`BYTES`] of the text is.
const UNITS: i64 = 2;
/// Bytes of a text, or of a pattern being compiled, that make a unit.
const BYTES: usize = 16;
/// Steps of any match, and of compiling any pattern.
const MATCH_STEPS: i64 = 4;
const COMPILE_STEPS: i64 = 32;
/// Units of one match after which the memory that it took is given back.
const LARGE: i64 = 10_000;

/// What PCRE2 tells a call-out, as far as it is read here ("The callout interface" in pcre2callout(3)).
#[repr(C)]
#[allow(dead_code)] // The layout is PCRE2's.
struct CalloutBlock {
    version: u32,
    callout_number: u32,
    capture_top: u32,
    capture_last: u32,
    offset_vector: *const usize,
    mark: *const u8,
    subject: *const u8,
    subject_length: usize,
    start_match: usize,
    current_position: usize,
    pattern_position: usize,
    next_item_length: usize,
}

type Callout = unsafe extern "C" fn(*const CalloutBlock, *mut c_void) -> c_int;

unsafe extern "C" {
    fn pcre2_set_callout_8(
        context: *mut pcre2::pcre2_match_context_8,
        callout: Option<Callout>,
        data: *mut c_void,
    ) -> c_int;
}

/// The work of a match in progress.
struct Count {
    /// Units that are left.
    left: i64,
    /// Where the last item began.
    at: usize,
    /// Units of each byte-wise unit, for an item that is a long class.
    width: usize,
    /// Units of an event.
    event: i64,
    /// How many bytes an item may look at without getting past them.
    touched: usize,
}

/// Counts what was done since the last call-out.
unsafe extern "C" fn count(block: *const CalloutBlock, data: *mut c_void) -> c_int {
    // SAFETY: PCRE2 passes a block that lives during the call, and the pointer that `run` has set, to a `Count` that
    // lives as long as the match and that nobody else uses meanwhile.
    let (block, count) = unsafe { (&*block, &mut *data.cast::<Count>()) };
    let at = block.current_position;
    let passed = at.saturating_sub(count.at) / BYTES * count.width;
    let touched = count.touched.min(block.subject_length.saturating_sub(at)) / BYTES;
    count.at = at;
    count.width = 1 + block.next_item_length / BYTES;
    count.left -= count.event + (passed + touched) as i64;
    if count.left < 0 {
        pcre2::PCRE2_ERROR_CALLOUT
    } else {
        0
    }
}

/// How many bytes of a text one item of a pattern may look at without getting past them: those of a repeated character
/// whose least number is not there, or all for a reference back.
fn touched(pattern: &[u8]) -> usize {
    let mut most = 0;
    for (at, b) in pattern.iter().enumerate() {
        let rest = &pattern[at + 1..];
        match b {
            b'{' => {
                let digits = rest.iter().take_while(|b| b.is_ascii_digit()).take(6);
                most = most.max(digits.fold(0, |n, b| n * 10 + usize::from(b - b'0')));
            }
            b'\\' if matches!(rest.first(), Some(b'1'..=b'9' | b'g' | b'k')) => return usize::MAX,
            b'(' if rest.starts_with(b"?P=") || rest.starts_with(b"*U") => return usize::MAX,
            _ => {}
        }
    }
    most
}

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
    /// Whether it has call-outs.
    counted: bool,
    /// Whether a match can begin at one place only.
    anchored: bool,
    /// Units of an event: what is copied grows with the number of groups.
    event: i64,
    /// See [`touched`].
    touched: usize,
    /// What compiling it took.
    steps: i64,
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

/// What compiling a pattern takes at least, malformed or not.
#[must_use]
pub fn compile_steps(pattern: &[u8]) -> i64 {
    COMPILE_STEPS + pattern.len() as i64
}

impl Pattern {
    /// Compiles a pattern; `None` if it is malformed.
    #[must_use]
    pub fn new(pattern: &[u8], options: Options) -> Option<Self> {
        let compiled = |more: u32| {
            let (mut error, mut offset) = (0, 0);
            // SAFETY: the pattern's pointer and length describe one live slice, and the two out-pointers are
            // live locals; a null context means defaults.
            let code = unsafe {
                pcre2::pcre2_compile_8(
                    pattern.as_ptr(),
                    pattern.len(),
                    options.bits() | more,
                    &mut error,
                    &mut offset,
                    ptr::null_mut(),
                )
            };
            if code.is_null() { Err(error) } else { Ok(code) }
        };
        let (code, counted) = match compiled(pcre2::PCRE2_AUTO_CALLOUT) {
            Ok(code) => (code, true),
            // With call-outs it may be too long, or a part of it that is looked at backwards.
            Err(_) => (compiled(0).ok()?, false),
        };
        let ask = |what: u32| {
            let mut answer = 0u32;
            // SAFETY: `code` was just compiled, and the two questions asked here have answers of 32 bits.
            unsafe { pcre2::pcre2_pattern_info_8(code, what, (&raw mut answer).cast()) };
            answer
        };
        let size = {
            let mut answer = 0usize;
            // SAFETY: `code` was just compiled, and the answer to this question is a `size_t`.
            unsafe {
                pcre2::pcre2_pattern_info_8(code, pcre2::PCRE2_INFO_SIZE, (&raw mut answer).cast())
            };
            answer
        };
        let mut this = Self {
            code,
            data: ptr::null_mut(),
            context: ptr::null_mut(),
            counted,
            anchored: ask(pcre2::PCRE2_INFO_ALLOPTIONS) & pcre2::PCRE2_ANCHORED != 0,
            event: 1 + i64::from(ask(pcre2::PCRE2_INFO_CAPTURECOUNT) / 32),
            touched: touched(pattern),
            steps: compile_steps(pattern) + (size / BYTES) as i64,
        };
        // SAFETY: `code` is ours and live; null contexts mean defaults. The results are freed in `drop`.
        unsafe {
            this.data = pcre2::pcre2_match_data_create_from_pattern_8(code, ptr::null_mut());
            this.context = pcre2::pcre2_match_context_create_8(ptr::null_mut());
            if this.data.is_null() || this.context.is_null() {
                return None;
            }
            pcre2::pcre2_set_match_limit_8(this.context, MATCH_LIMIT);
            pcre2::pcre2_set_heap_limit_8(this.context, HEAP_LIMIT_KIB);
        }
        Some(this)
    }

    /// Steps that compiling it took.
    #[must_use]
    pub fn steps(&self) -> i64 {
        self.steps
    }

    /// Matches at or after `start`. `again` is for a search that goes on after an empty match: only a
    /// match right here that is not empty counts. What it does is taken from `steps`; where those are not enough they
    /// are less than nothing afterwards, and the match has failed.
    #[must_use]
    pub fn find(&mut self, text: &[u8], start: usize, again: bool, steps: &mut i64) -> Match {
        let options = if again {
            pcre2::PCRE2_NOTEMPTY_ATSTART | pcre2::PCRE2_ANCHORED
        } else {
            0
        };
        self.run(text, start, options, steps)
    }

    /// The first match that is not empty; steps as in [`Pattern::find`].
    #[must_use]
    pub fn find_nonempty(&mut self, text: &[u8], steps: &mut i64) -> Match {
        self.run(text, 0, pcre2::PCRE2_NOTEMPTY, steps)
    }

    fn run(&mut self, text: &[u8], start: usize, options: u32, steps: &mut i64) -> Match {
        *steps -= MATCH_STEPS;
        if start > text.len() {
            return Match::Failed;
        }
        if *steps < 0 {
            return Match::Failed;
        }
        let (status, units) = if self.counted {
            self.matched(text, start, options, *steps)
        } else {
            self.tried(text, start, options, *steps)
        };
        *steps = if units > steps.saturating_mul(UNITS) {
            -1
        } else {
            *steps - units / UNITS
        };
        let found = if status == pcre2::PCRE2_ERROR_NOMATCH {
            Match::None
        } else if status < 0 {
            Match::Failed
        } else {
            self.groups(text, status as usize)
        };
        if units > LARGE {
            // SAFETY: the old data is ours, and used no more; `code` is live.
            unsafe {
                pcre2::pcre2_match_data_free_8(self.data);
                self.data =
                    pcre2::pcre2_match_data_create_from_pattern_8(self.code, ptr::null_mut());
            }
        }
        found
    }

    /// Matches with call-outs; PCRE2's answer, and the units of work done.
    fn matched(&self, text: &[u8], start: usize, options: u32, steps: i64) -> (c_int, i64) {
        let granted = steps.saturating_mul(UNITS);
        let mut work = Count {
            left: granted,
            at: start,
            width: 1,
            event: self.event,
            touched: self.touched,
        };
        // SAFETY: the context is ours, and `work` lives until the match below is over; the next match sets another.
        unsafe {
            pcre2_set_callout_8(self.context, Some(count), (&raw mut work).cast());
        }
        let status = self.call(text, start, options);
        if status == pcre2::PCRE2_ERROR_NOMATCH {
            // Where a match could begin was searched for up to the end.
            work.left -= (text.len().saturating_sub(work.at) / BYTES) as i64;
        }
        (status, granted - work.left)
    }

    /// Matches with one limit after the other; PCRE2's answer, and the units of work that were allowed.
    fn tried(&self, text: &[u8], start: usize, options: u32, steps: i64) -> (c_int, i64) {
        let granted = steps.saturating_mul(UNITS);
        let anchored = self.anchored || options & pcre2::PCRE2_ANCHORED != 0;
        let length = text.len() - start;
        let starts = if anchored { 1 } else { length as i64 + 1 };
        let each = self.event + ((length + self.touched.min(length)) / BYTES) as i64;
        let mut units = 0i64;
        for limit in LIMITS {
            units = units.saturating_add(
                starts
                    .saturating_mul(each)
                    .saturating_mul(i64::from(limit) / UNITS),
            );
            if units > granted {
                break;
            }
            // SAFETY: the context is ours and live.
            unsafe { pcre2::pcre2_set_match_limit_8(self.context, limit) };
            let status = self.call(text, start, options);
            if status != pcre2::PCRE2_ERROR_MATCHLIMIT || limit == MATCH_LIMIT {
                return (status, units);
            }
        }
        (pcre2::PCRE2_ERROR_MATCHLIMIT, granted.saturating_add(1))
    }

    fn call(&self, text: &[u8], start: usize, options: u32) -> c_int {
        if self.data.is_null() {
            return pcre2::PCRE2_ERROR_NOMEMORY;
        }
        // SAFETY: the text's pointer and length describe one live slice with `start` inside; code, data and
        // context are ours and live. PCRE2 keeps no pointer to the text that we use after this call.
        unsafe {
            pcre2::pcre2_match_8(
                self.code,
                text.as_ptr(),
                text.len(),
                start,
                options,
                self.data,
                self.context,
            )
        }
    }

    /// What the match found that was run last and returned `status`.
    fn groups(&self, text: &[u8], status: usize) -> Match {
        // SAFETY: after a match that returned `status`, the vector holds at least that many pairs.
        let pairs = unsafe {
            let vector = pcre2::pcre2_get_ovector_pointer_8(self.data);
            std::slice::from_raw_parts(vector, status * 2)
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
