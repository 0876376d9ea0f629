"""What starter and schedd share to run jobs: what a job asks for, its keeper, its control groups, how its run ended."""
