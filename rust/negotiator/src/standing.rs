//! The cycle as it stands: for what looks at it and does not move it on.

use crate::accounting::Accounting;
use crate::inputs::Inputs;
use crate::progress::Progress;

/// See the module text.
#[derive(Clone, Copy)]
pub(crate) struct Standing<'c, 'a> {
    pub inputs: Inputs<'a>,
    pub accounting: &'c Accounting,
    pub progress: &'c Progress,
}

impl Standing<'_, '_> {
    /// Entry of the submitter of a request.
    pub fn entry_of(&self, request: usize) -> usize {
        self.inputs.demand.requests[request].submitter
    }

    /// Account of the submitter of a request.
    pub fn account_of(&self, request: usize) -> usize {
        self.accounting.account_of[self.entry_of(request)]
    }

    /// Jobs left of a request.
    pub fn remaining(&self, request: usize) -> u32 {
        self.progress.remaining[request]
    }
}
