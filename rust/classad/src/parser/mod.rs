//! Tokens to trees: precedence climbing, with HTCondor's depth limit.

mod operators;
mod primary;

use crate::ad::Ad;
use crate::error::{Code, ParseError, Span};
use crate::expr::Expr;
use crate::lexer::{Lexer, Token};
use crate::spans::{Recorder, Spans};

/// How deep expressions may nest; HTCondor counts three steps for a pair of parentheses.
const MAX_DEPTH: u32 = 500;
/// How many operators of one level may follow each other (`a || b || ...`). HTCondor reads more, but
/// cannot evaluate more than 400.
const MAX_CHAIN: u32 = 5000;

/// Which dialect is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syntax {
    /// HTCondor's STRICT_CLASSAD_EVALUATION: `017` is an integer, `;` separates no arguments.
    pub strict: bool,
    /// Strings as in old-syntax ads: a backslash is itself unless a quote follows.
    pub old_strings: bool,
    /// Tokens as in JSON: `null`, JSON escapes, `undefined` a plain name.
    pub json: bool,
    /// JSON escapes above ASCII come out as HTCondor garbles them.
    pub exact_json: bool,
    /// A `//` comment needs the end of its line, as in HTCondor's Python: the end of the text will not do.
    pub closed_comments: bool,
}

impl Syntax {
    /// The normal mode's new syntax.
    pub const NORMAL: Syntax = Syntax {
        strict: false,
        old_strings: false,
        json: false,
        exact_json: false,
        closed_comments: false,
    };
    /// The right-hand sides of old-syntax ads, and expressions in configurations and submit descriptions; normal mode.
    pub const OLD: Syntax = Syntax {
        old_strings: true,
        ..Syntax::NORMAL
    };
}

/// Parses a whole text as one expression.
///
/// # Errors
/// [`ParseError`] with the place and a hint.
pub fn parse_expr(text: &[u8], syntax: Syntax) -> Result<Expr, ParseError> {
    let mut parser = Parser::new(text, syntax)?;
    let expr = parser.expression()?;
    parser.end()?;
    Ok(expr)
}

/// As [`parse_expr`], but overlooking what HTCondor's Python overlooks: text that follows a closing bracket, or
/// a semicolon at the end, behind a conditional. Comments must end.
///
/// # Errors
/// [`ParseError`] with the place and a hint.
pub fn parse_expr_as_reference(text: &[u8], syntax: Syntax) -> Result<Expr, ParseError> {
    let syntax = Syntax {
        closed_comments: true,
        ..syntax
    };
    let mut parser = Parser::new(text, syntax)?;
    let expr = parser.expression()?;
    if matches!(expr, Expr::Ternary(_)) && parser.pending.is_none() {
        if parser.token == Token::CloseBox {
            return Ok(expr);
        }
        if parser.token == Token::Semicolon {
            parser.advance();
        }
    }
    parser.end()?;
    Ok(expr)
}

/// As [`parse_expr`], for a text that came as a value (of `eval()`, in JSON, of a knob): what follows a conditional is
/// overlooked, as in HTCondor.
///
/// # Errors
/// [`ParseError`] with the place and a hint.
pub fn parse_computed(text: &[u8], syntax: Syntax) -> Result<Expr, ParseError> {
    let mut parser = Parser::new(text, syntax)?;
    let expr = parser.expression()?;
    if !matches!(expr, Expr::Ternary(_)) {
        parser.end()?;
    }
    Ok(expr)
}

/// Parses the expression at the beginning of `text`; gives it and where what follows it begins. HTCondor reads
/// so what `ClassAd::EvaluateExpr` is given.
///
/// # Errors
/// [`ParseError`] with the place and a hint, when the text does not begin with an expression.
pub fn parse_leading(text: &[u8], syntax: Syntax) -> Result<(Expr, usize), ParseError> {
    let mut parser = Parser::new(text, syntax)?;
    let expr = parser.expression()?;
    let end = parser.span_before.end;
    Ok((expr, end))
}

/// As [`parse_expr`], with the place of every node in the text.
///
/// # Errors
/// [`ParseError`] with the place and a hint.
pub fn parse_expr_spanned(text: &[u8], syntax: Syntax) -> Result<(Expr, Spans), ParseError> {
    let mut parser = Parser::new(text, syntax)?;
    parser.recorder = Some(Recorder::default());
    let expr = parser.expression()?;
    parser.end()?;
    Ok((expr, parser.spans()))
}

/// As [`parse_ad`], with the places of the ad and, within it, of every node of its attributes in order.
///
/// # Errors
/// [`ParseError`] with the place and a hint.
pub fn parse_ad_spanned(text: &[u8], syntax: Syntax) -> Result<(Ad, Spans), ParseError> {
    let mut parser = Parser::new(text, syntax)?;
    parser.recorder = Some(Recorder::default());
    let ad = parser.ad()?;
    Ok((ad, parser.spans()))
}

/// Parses a new-syntax ad at the beginning of `text`; gives it and where it ends.
///
/// # Errors
/// [`ParseError`] with the place and a hint.
pub fn parse_ad(text: &[u8], syntax: Syntax) -> Result<(Ad, usize), ParseError> {
    let mut parser = Parser::new(text, syntax)?;
    let ad = parser.ad()?;
    let end = parser.span_before.end;
    Ok((ad, end))
}

/// As [`parse_ad`], telling how far the text was looked at before an error.
pub(crate) fn parse_ad_reaching(
    text: &[u8],
    syntax: Syntax,
) -> Result<(Ad, usize), (ParseError, usize)> {
    let mut parser = Parser::new(text, syntax).map_err(|error| {
        let end = error.span.end;
        let reach = match error.code {
            // A number is known to end by the byte behind it.
            Code::BadNumber => (end + 1).min(text.len()),
            Code::UnexpectedCharacter if end == error.span.start + 1 => end,
            _ => text.len(),
        };
        (error, reach)
    })?;
    match parser.ad() {
        Ok(ad) => Ok((ad, parser.span_before.end)),
        // What follows a time literal is not looked at before the literal is made.
        Err(error) if error.code == Code::BadTimeLiteral => {
            let reach = error.span.end;
            Err((error, reach))
        }
        Err(error) => Err((error, parser.lexer.reach())),
    }
}

pub(crate) struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token,
    span: Span,
    /// The place of the token consumed last.
    pub(crate) span_before: Span,
    syntax: Syntax,
    depth: u32,
    /// A token that could not be read; reported when the parser gets there.
    pending: Option<ParseError>,
    /// Where nodes are noted down, if anybody asked.
    pub(crate) recorder: Option<Recorder>,
}

impl<'t> Parser<'t> {
    pub(crate) fn new(text: &'t [u8], syntax: Syntax) -> Result<Self, ParseError> {
        let mut lexer = Lexer::new(text, syntax);
        let (token, span) = lexer.next_token()?;
        Ok(Self {
            lexer,
            token,
            span,
            span_before: Span::default(),
            syntax,
            depth: 0,
            pending: None,
            recorder: None,
        })
    }

    /// Consumes the current token. The next one is read at once, but an error in it only counts when it is
    /// looked at: text after a complete ad is nobody's business.
    fn advance(&mut self) -> Token {
        self.span_before = self.span;
        match self.lexer.next_token() {
            Ok((token, span)) => {
                self.span = span;
                std::mem::replace(&mut self.token, token)
            }
            Err(error) => {
                self.span = error.span;
                self.pending = Some(error);
                std::mem::replace(&mut self.token, Token::End)
            }
        }
    }

    fn unexpected<T>(&mut self, wanted: &str, hint: &'static str) -> Result<T, ParseError> {
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        let code = if self.token == Token::End {
            Code::UnexpectedEnd
        } else {
            Code::UnexpectedToken
        };
        let message = format!("expected {wanted} but found {}", self.token.describe());
        Err(ParseError::new(code, self.span, message, hint))
    }

    fn expect(
        &mut self,
        token: &Token,
        wanted: &str,
        hint: &'static str,
    ) -> Result<(), ParseError> {
        if self.token == *token {
            self.advance();
            return Ok(());
        }
        self.unexpected(wanted, hint)
    }

    /// Nothing may follow.
    pub(crate) fn end(&mut self) -> Result<(), ParseError> {
        if self.token == Token::End && self.pending.is_none() {
            return Ok(());
        }
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        let message = format!("{} after the end of the expression", self.token.describe());
        let hint = if self.token == Token::Assign {
            "`==` compares; `=` gives an attribute its value"
        } else {
            "an operator may be missing, or a quote around a name or string"
        };
        Err(ParseError::new(
            Code::TrailingText,
            self.span,
            message,
            hint,
        ))
    }

    fn deeper<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        self.depth += 1;
        let result = if self.depth > MAX_DEPTH {
            Err(ParseError::new(
                Code::TooDeep,
                self.span,
                "the expression nests too deep",
                "move parts of it into attributes of their own",
            ))
        } else {
            step(self)
        };
        self.depth -= 1;
        result
    }

    /// Where a node begins, and how many were noted before it.
    fn mark(&self) -> Mark {
        let noted = self.recorder.as_ref().map_or(0, Recorder::noted);
        Mark {
            start: self.span.start,
            noted,
        }
    }

    /// Notes a node that ends with the token consumed last; all its children are noted.
    fn note(&mut self, mark: Mark) {
        if let Some(recorder) = &mut self.recorder {
            let span = Span {
                start: mark.start,
                end: self.span_before.end,
            };
            recorder.note(span, mark.noted);
        }
    }

    /// The places noted; the root was noted last.
    pub(crate) fn spans(&mut self) -> Spans {
        self.recorder.take().unwrap_or_default().finish()
    }
}

/// The beginning of a node.
#[derive(Clone, Copy)]
struct Mark {
    start: usize,
    noted: usize,
}
