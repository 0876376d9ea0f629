"""Commands about jobs: submit, list, act, analyze, follow."""
