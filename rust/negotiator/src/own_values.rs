//! Attributes of an ad, evaluated without another ad.

use classad::{Ad, Context, Expr, Value, evaluate};

/// Evaluates one attribute of an ad alone.
#[must_use]
pub fn own_value(ad: &Ad, name: &str, now: i64) -> Value {
    let Some(expr) = ad.get_str(name) else {
        return Value::Undefined;
    };
    match expr {
        Expr::Lit(value) => value.clone(),
        expr => {
            let context = Context {
                my: Some(ad),
                now,
                ..Context::default()
            };
            evaluate(expr, &context)
        }
    }
}

/// A string attribute.
#[must_use]
pub fn own_text(ad: &Ad, name: &str, now: i64) -> Option<String> {
    let value = own_value(ad, name, now);
    value
        .as_str()
        .map(|s| String::from_utf8_lossy(s).into_owned())
}

/// A numeric attribute.
#[must_use]
pub fn own_number(ad: &Ad, name: &str, now: i64) -> Option<f64> {
    own_value(ad, name, now).as_number()
}

/// A truth value; a number is one, too.
#[must_use]
pub fn own_flag(ad: &Ad, name: &str, now: i64) -> Option<bool> {
    own_value(ad, name, now).truth()
}
