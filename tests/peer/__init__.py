"""HTCondor's own tests (``src/condor_tests`` of its sources) on pools of ours: ``make test-peer SNAPSHOT=...``."""
