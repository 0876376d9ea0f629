"""Snakemake runs a workflow of four rules with its HTCondor executor."""

import os
import subprocess
import sys
from pathlib import Path

_RULES = """
rule all:
    input: "all.txt"
rule number:
    output: "number.{n}.txt"
    shell: "echo {wildcards.n} > {output}"
rule sum:
    input: expand("number.{n}.txt", n=[1, 2, 3])
    output: "all.txt"
    shell: "cat {input} > {output}"
"""

if __name__ == "__main__":
    os.umask(0)  # jobs may run as another account and write into this directory
    Path("Snakefile").write_text(_RULES)
    words = [sys.executable, "-m", "snakemake", "--executor", "htcondor", "--jobs", "3", "--latency-wait", "20"]
    words += ["--seconds-between-status-checks", "1"]
    # A job's account may have no home.
    words += ["--default-resources", "mem_mb=100", "disk_mb=20", f"environment='HOME={Path.cwd()}'"]
    words += ["--htcondor-jobdir", str(Path("jobs").absolute())]
    subprocess.run(words, check=True)
    assert Path("all.txt").read_text() == "1\n2\n3\n"
    print("done")
