//! The configuration and submit description languages: macros, conditionals, templates, queue statements.
