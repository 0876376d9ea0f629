//! The ClassAd language: values, parser, printer, evaluator. No clock, no threads, no Python.
