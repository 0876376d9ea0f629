"""HTCondor's package htcondor_cli, as far as programs import from it: its command, its words and its sums.

``cli.main`` runs ``htcondor``; ``snake.Submit`` queues the job that runs Snakemake; ``convert_ad`` tells how daemons
do; ``utils`` writes times and sizes. The other verbs are not classes here: call the command.
"""
