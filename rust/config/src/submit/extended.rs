//! EXTENDED_SUBMIT_COMMANDS: commands that an administrator adds to the language, or forbids.

use classad::{Expr, Syntax, Value, parse_expr};

use crate::submit::Knobs;
use crate::submit::commands::{Command, Kind};
use crate::submit::job::{Done, Job};
use crate::submit::policy;

/// A command of the administrator; its attribute has the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    /// Name of the command and of the attribute.
    pub name: String,
    /// How its value is read; `None`: it may not be used.
    pub form: Option<Form>,
}

/// What an example in the knob says about the values of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `"text"`.
    Text,
    /// `"a,b"`.
    List,
    /// `"filename"`.
    File,
    /// `"file,names"`: kept as a list, names as they are.
    Files,
    /// `true`.
    Bool,
    /// `-1`.
    Int,
    /// `0`.
    Count,
    /// Anything else.
    Expr,
}

impl Form {
    /// The kind of value that an example stands for; `None` for `undefined`, which takes a command away.
    fn of(example: &Expr) -> Option<Self> {
        Some(match example {
            Expr::Lit(Value::Undefined) => return None,
            Expr::Lit(Value::Bool(_)) => Self::Bool,
            Expr::Lit(Value::Int(number)) if *number >= 0 => Self::Count,
            Expr::Lit(Value::Int(_)) => Self::Int,
            Expr::Lit(Value::Str(text)) => {
                let text = text.as_bytes();
                let is_file = text.len() >= 4 && text[..4].eq_ignore_ascii_case(b"file");
                match (is_file, text.contains(&b',')) {
                    (false, false) => Self::Text,
                    (false, true) => Self::List,
                    (true, false) => Self::File,
                    (true, true) => Self::Files,
                }
            }
            _ => Self::Expr,
        })
    }

    /// In words, as HTCondor's condor_submit -capabilities has them.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::List => "stringlist",
            Self::File => "filename",
            Self::Files => "filename list",
            Self::Bool => "boolean true/false",
            Self::Int => "signed integer",
            Self::Count => "unsigned integer",
            Self::Expr => "expression",
        }
    }

    const fn command(self) -> Command {
        Command {
            name: "",
            attribute: "",
            kind: match self {
                Self::Text | Self::List | Self::File | Self::Files => Kind::Text,
                Self::Bool => Kind::Bool,
                Self::Int => Kind::Int,
                Self::Count => Kind::Count,
                Self::Expr => Kind::Expr,
            },
            simple: true,
            alias: false,
            unquote: true,
            file: matches!(self, Self::File),
            list: matches!(self, Self::List | Self::Files),
        }
    }
}

/// The commands that the knob adds. A line that is not `NAME = EXAMPLE` adds none; the last line of a name counts.
#[must_use]
pub fn commands(knobs: &dyn Knobs) -> Vec<Extended> {
    let text = knobs.text("EXTENDED_SUBMIT_COMMANDS").unwrap_or_default();
    let mut found: Vec<Extended> = Vec::new();
    for line in text.lines() {
        let Some((name, example)) = line.split_once('=') else {
            continue;
        };
        let name = crate::lines::trim(name);
        let Ok(example) = parse_expr(crate::lines::trim(example).as_bytes(), Syntax::OLD) else {
            continue;
        };
        if !crate::statement::is_name(name) {
            continue;
        }
        found.retain(|known| !known.name.eq_ignore_ascii_case(name));
        let is_error = matches!(example, Expr::Lit(Value::Error));
        let form = Form::of(&example);
        if is_error || form.is_some() {
            let form = form.filter(|_| !is_error);
            let name = name.to_owned();
            found.push(Extended { name, form });
        }
    }
    found
}

/// Puts a command of the administrator into the ad.
pub fn extended(job: &mut Job<'_>, command: &Extended) -> Done {
    let Some(text) = job.command(&command.name, "")? else {
        return Ok(());
    };
    match command.form {
        Some(form) => policy::put_given(job, &form.command(), &command.name, &command.name, text),
        None => Err(job.bad(
            &command.name,
            format!(
                "{}={text} has been disabled by the administrator",
                command.name
            ),
            "leave the command out",
        )),
    }
}
