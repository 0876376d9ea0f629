//! Ads in typed columns, and expressions lowered to bytecode that runs over them.
