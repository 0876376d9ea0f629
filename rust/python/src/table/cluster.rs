//! Ads of a cluster: a template, and what differs from ad to ad.

use ::classad::{Ad, Expr, Name};
use ::columns::{AdTable, TableError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::convert::ad_from_python;
use crate::classad::convert::from_python;

/// What a cluster is made of.
pub(super) struct Cluster {
    template: Ad,
    /// Deltas by key, as a batch.
    batch: Option<Vec<u8>>,
    /// Deltas by key, as ads.
    ads: Vec<Ad>,
    /// Columns of plain values.
    extra: Vec<(Name, Vec<Expr>)>,
}

impl Cluster {
    /// Reads what Python gives.
    pub(super) fn of(
        template: &Bound<'_, PyAny>,
        keys: &[String],
        deltas: Option<&Bound<'_, PyAny>>,
        columns: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let template = (*ad_from_python(template)?).clone();
        let (batch, ads) = match deltas {
            None => (None, Vec::new()),
            Some(given) => match given.cast::<PyBytes>() {
                Ok(bytes) => (Some(bytes.as_bytes().to_vec()), Vec::new()),
                Err(_) => {
                    let ads: PyResult<Vec<Ad>> = given
                        .try_iter()?
                        .map(|ad| Ok((*ad_from_python(&ad?)?).clone()))
                        .collect();
                    (None, ads?)
                }
            },
        };
        let mut extra: Vec<(Name, Vec<Expr>)> = Vec::new();
        for (name, values) in columns.into_iter().flat_map(|columns| columns.iter()) {
            let values = values
                .try_iter()?
                .map(|value| from_python(&value?))
                .collect::<PyResult<Vec<_>>>()?;
            extra.push((Name::from(name.extract::<String>()?.as_str()), values));
        }
        if !ads.is_empty() && ads.len() != keys.len()
            || extra.iter().any(|column| column.1.len() != keys.len())
        {
            return Err(PyValueError::new_err(
                "deltas and columns must be as many as keys",
            ));
        }
        Ok(Self {
            template,
            batch,
            ads,
            extra,
        })
    }

    /// Puts its ads into a table.
    pub(super) fn insert(
        &self,
        table: &mut AdTable,
        keys: &[String],
        received_at: f64,
    ) -> Result<(), TableError> {
        let bytes: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let rows = match &self.batch {
            Some(batch) => table.insert_from_pack(&self.template, &bytes, batch, received_at)?,
            None => table.insert_from_template(&self.template, &bytes, &self.ads, received_at)?,
        };
        for (name, values) in &self.extra {
            table.set_column(name, &rows, values)?;
        }
        Ok(())
    }
}
