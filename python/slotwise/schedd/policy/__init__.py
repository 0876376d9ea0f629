"""Users' and administrators' policies for jobs, evaluated over time and at events."""
