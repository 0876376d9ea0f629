"""From a submission to jobs in the queue: bounds, rules, ids, one transaction, late materialization."""
