//! Ads to XML.

use crate::ad::Ad;
use crate::expr::Expr;
use crate::number::push_exponential;
use crate::print::{Printer, Style};
use crate::time;
use crate::value::Value;

/// The lines around a list of ads.
pub const HEADER: &str =
    "<?xml version=\"1.0\"?>\n<!DOCTYPE classads SYSTEM \"classads.dtd\">\n<classads>\n";
/// What ends a list of ads.
pub const FOOTER: &str = "</classads>\n";

/// Writes an ad as XML. `indent` puts every attribute on a line of its own.
pub fn write_xml(out: &mut Vec<u8>, ad: &Ad, indent: bool) {
    Writer { out, indent }.ad(ad, 0);
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    indent: bool,
}

const STYLE: Style = Style {
    old: false,
    indent: false,
    xml: true,
};

impl Writer<'_> {
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn ad(&mut self, ad: &Ad, level: usize) {
        self.text(if self.indent { "<c>\n" } else { "<c>" });
        for (name, expr) in ad.sorted() {
            if self.indent {
                self.out.extend(std::iter::repeat_n(b' ', level + 4));
            }
            self.text("<a n=\"");
            Printer::new(self.out, STYLE).escaped(name.as_bytes(), b'"');
            self.text("\">");
            self.expr(expr, level + 4);
            self.text(if self.indent { "</a>\n" } else { "</a>" });
        }
        if self.indent {
            self.out.extend(std::iter::repeat_n(b' ', level));
        }
        self.text("</c>");
        if self.indent && level == 0 {
            self.text("\n");
        }
    }

    fn expr(&mut self, expr: &Expr, level: usize) {
        match expr {
            Expr::Ad(ad) => self.ad(ad, level),
            Expr::List(items) => {
                self.text("<l>");
                for item in items.iter() {
                    self.expr(item, level);
                }
                self.text("</l>");
            }
            Expr::Lit(value) => self.value(value),
            other => {
                self.text("<e>");
                Printer::new(self.out, STYLE).expr(other);
                self.text("</e>");
            }
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Undefined => self.text("<un/>"),
            Value::Error | Value::List(_) | Value::Ad(_) => self.text("<er/>"),
            Value::Bool(true) => self.text("<b v=\"t\"/>"),
            Value::Bool(false) => self.text("<b v=\"f\"/>"),
            Value::Int(i) => self.text(&format!("<i>{i}</i>")),
            Value::Real(r) => self.real(*r),
            Value::Str(s) => {
                self.text("<s>");
                Printer::new(self.out, STYLE).escaped(s.as_bytes(), 0);
                self.text("</s>");
            }
            Value::AbsTime(t) => {
                self.text("<at>");
                time::push_abs(self.out, *t);
                self.text("</at>");
            }
            Value::RelTime(r) => {
                self.text("<rt>");
                time::push_rel(self.out, *r);
                self.text("</rt>");
            }
        }
    }

    fn real(&mut self, r: f64) {
        self.text("<r>");
        if r == 0.0 {
            self.text("0.0");
        } else if r.is_nan() {
            self.text("NaN");
        } else if r.is_infinite() {
            self.text(if r > 0.0 { "INF" } else { "-INF" });
        } else {
            push_exponential(self.out, r, 15);
        }
        self.text("</r>");
    }
}
