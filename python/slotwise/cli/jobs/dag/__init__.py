"""`slotwise dag`: DAGs of jobs."""
