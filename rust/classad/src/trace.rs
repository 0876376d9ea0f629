//! What `debug()` tells: each reference and call below it with its value, and the whole at last.

use crate::eval::{BYTES_A_STEP, Evaluator, Frame, Outcome};
use crate::expr::Expr;
use crate::print::unparse_text;
use crate::value::Value;

/// How much of an expression or value a line shows.
const SHOWN: usize = 1000;

impl Evaluator<'_> {
    /// Evaluates `expr` as the argument of `debug()`.
    pub(crate) fn eval_debugged(&mut self, expr: &Expr, frame: Frame) -> Outcome {
        if !self
            .context()
            .externals
            .is_some_and(|externals| externals.wants_debug())
        {
            return self.eval_in(expr, frame);
        }
        let before = std::mem::replace(&mut self.tracing, true);
        let result = self.eval_in(expr, frame);
        self.tracing = before;
        self.tell(expr, &result);
        result
    }

    /// Evaluates `expr` and tells its value, unless it is a literal or an operation.
    #[cold]
    pub(crate) fn eval_traced(&mut self, expr: &Expr, frame: Frame) -> Outcome {
        let result = self.eval_untraced(expr, frame);
        if matches!(
            expr,
            Expr::Attr(_) | Expr::AbsAttr(_) | Expr::Select(_) | Expr::Call(_) | Expr::List(_)
        ) {
            self.tell(expr, &result);
        }
        result
    }

    fn tell(&mut self, expr: &Expr, result: &Outcome) {
        let Some(externals) = self.context().externals else {
            return;
        };
        let text = unparse_text(expr);
        self.steps -= (text.len() / BYTES_A_STEP) as i64;
        let shown = shortened(text);
        externals.debug(&format!(
            "Classad debug: {shown} --> {}",
            told(expr, result)
        ));
    }
}

fn told(expr: &Expr, result: &Outcome) -> String {
    match result {
        Err(_) => "ERROR".into(),
        Ok(Value::Error) => match expr {
            Expr::Call(call) if call.builtin.is_none() => "ERROR (function is not defined)".into(),
            _ => "ERROR".into(),
        },
        Ok(Value::Undefined) => "UNDEFINED".into(),
        Ok(Value::Bool(b)) => if *b { "TRUE" } else { "FALSE" }.into(),
        Ok(Value::Int(i)) => i.to_string(),
        Ok(Value::Real(r)) => r.to_string(),
        Ok(Value::Str(s)) => shortened(String::from_utf8_lossy(s.as_bytes()).into_owned()),
        Ok(Value::RelTime(_)) => "RELATIVE TIME".into(),
        Ok(Value::AbsTime(_)) => "ABSOLUTE TIME".into(),
        Ok(Value::List(_)) => "LIST".into(),
        Ok(Value::Ad(_)) => "CLASSAD".into(),
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > SHOWN {
        let cut = (0..=SHOWN).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or(0));
        text.push_str("...");
    }
    text
}
