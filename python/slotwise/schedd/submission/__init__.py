"""Takes submissions into the queue: limits, rules, ids, one transaction, late materialization."""
