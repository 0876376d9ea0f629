"""Calls of each command, as its help and its man page show them."""

from __future__ import annotations

#: Calls that are typed often, with what they do.
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "submit": (
        ("slotwise submit hello.sub", "queue the jobs of a description"),
        ("slotwise submit hello.sub -append 'request_memory = 2G'", "with one more statement"),
        ("slotwise submit -dry-run - hello.sub", "show the jobs' ads, and queue nothing"),
    ),
    "q": (
        ("slotwise q", "your jobs, a line for each submission"),
        ("slotwise q -nobatch", "a line for each job"),
        ("slotwise q -hold", "held jobs with the reason"),
        ("slotwise q -af ClusterId ProcId MemoryUsage", "values for a script"),
    ),
    "wait": (("slotwise wait -check hello.log", "until all have ended; fails when one of them did"),),
    "history": (("slotwise history -limit 10 -af ClusterId ProcId ExitCode", "how the last ten ended"),),
    "rm": (
        ("slotwise rm 12", "all jobs of submission 12"),
        ("slotwise rm -constraint 'JobStatus == 5'", "your held jobs"),
    ),
    "hold": (("slotwise hold 12.3 -reason 'look at its input'", "keep a job from running"),),
    "release": (("slotwise release 12.3", "let a held job run"),),
    "analyze": (("slotwise analyze 12.0", "why this job waits, or is held, and what to change"),),
    "status": (
        ("slotwise status", "the slots"),
        ("slotwise status -compact", "a line for each machine"),
        ("slotwise status -constraint 'Memory > 16000' -af Name Cpus Memory", "some, for a script"),
    ),
    "qedit": (("slotwise qedit 12.3 RequestMemory 4096", "more memory at its next start"),),
    "tail": (("slotwise tail -f 12.3", "follow what a running job prints"),),
    "dag": (
        ("slotwise dag check diamond.dag", "everything that is wrong with a DAG file, with place and remedy"),
        ("slotwise dag status diamond.dag", "how far it is, what failed, and when the end is likely"),
        ("slotwise dag why diamond.dag D", "what node D waits for, or what it failed of"),
    ),
    "config": (
        ("slotwise config explain START", "what a knob is for, and where its value comes from"),
        ("slotwise config check", "what is wrong with the configuration"),
    ),
    "up": (("slotwise up --config my.conf", "a pool with a configuration of your own"),),
    "down": (
        ("slotwise down", "stop this host's pool; jobs go back to the queue"),
        ("slotwise down --peaceful", "when the running jobs have ended"),
    ),
    "restart": (
        ("slotwise restart --keep", "new daemons, while jobs run on"),
        ("slotwise restart schedd", "one daemon"),
    ),
    "daemon": (("slotwise daemon schedd", "run the schedd where you see what it says"),),
    "reconfig": (("slotwise reconfig", "have the daemons read the configuration again"),),
    "ping": (
        ("slotwise ping", "which daemons answer, and as whom they know you"),
        ("slotwise ping --table WRITE ADMINISTRATOR", "whether you may do these"),
    ),
    "token": (
        ("slotwise token fetch --file my.token", "a token for yourself, for another host"),
        ("slotwise token requests", "who waits to be let in"),
    ),
    "node": (
        ("slotwise node install --help", "make this host a central manager, or part of a pool"),
        ("slotwise node list", "the hosts of the pool"),
    ),
    "suspend": (("slotwise suspend 12.3", "stop a running job where it is"),),
    "continue": (("slotwise continue 12.3", "let it go on"),),
    "vacate-job": (("slotwise vacate-job 12.3", "back to the queue, to run elsewhere"),),
    "now": (("slotwise now 14.0 12.3 12.4", "run 14.0 on what 12.3 and 12.4 have"),),
    "prio": (("slotwise prio -p 10 12", "the jobs of submission 12 before your others"),),
    "qusers": (
        ("slotwise qusers", "the users that the access point knows"),
        ("slotwise qusers -disable -reason 'left us' ann", "take no more jobs of hers"),
    ),
    "store-cred": (("slotwise store-cred query-oauth", "which services you have credentials of"),),
    "transfer-data": (("slotwise transfer-data 12", "fetch the results of jobs submitted with -spool"),),
    "qsub": (("slotwise qsub job.sh", "submit a script with #PBS or #$ lines"),),
    "evicted-files": (("slotwise evicted-files list 12.3", "what its last run has left for the next"),),
    "watch-q": (("slotwise watch-q", "follow your jobs until ^C"),),
    "userlog": (("slotwise userlog -total hello.log", "what the runs of its jobs have cost"),),
    "check-userlogs": (("slotwise check-userlogs hello.log", "whether each job that began has ended, once"),),
    "ssh-to-job": (
        ("slotwise ssh-to-job 12.3", "a shell beside the running job"),
        ("slotwise ssh-to-job 12.3 nvidia-smi", "one command there"),
    ),
    "who": (("slotwise who", "whose jobs run on this machine"),),
    "top": (("slotwise top", "what the schedd does with its time"),),
    "pool-job-report": (("slotwise pool-job-report -days 0", "jobs that ended today, by user"),),
    "fetchlog": (("slotwise fetchlog ep1.example STARTER", "the starter's log of another machine"),),
    "findhost": (("slotwise findhost", "the slot that an interactive user takes with least harm"),),
    "userprio": (
        ("slotwise userprio", "priorities, and use so far"),
        ("slotwise userprio -setfactor ann@example 500", "twice the share of those at 1000"),
    ),
    "reschedule": (("slotwise reschedule", "begin a negotiation cycle now"),),
    "negotiator": (("slotwise negotiator last", "what the last cycle gave to whom, and why not to others"),),
    "demand": (("slotwise demand -json", "what would have to be there, for an autoscaler"),),
    "negotiate": (("slotwise negotiate --slots slots.ads --jobs jobs.ads", "who would get which slot"),),
    "drain": (
        ("slotwise drain -reason 'new disk' ep1.example", "let its jobs end, and start no others"),
        ("slotwise drain -cancel ep1.example", "take jobs again"),
    ),
    "power": (("slotwise power ep1.example", "wake a machine that sleeps"),),
    "watch": (("slotwise watch", "cores, shares and your jobs, until ^C"),),
    "report": (
        ("slotwise report usage -since 7d -by day", "cores in use, against quotas"),
        ("slotwise report waste", "what was asked for and not used"),
    ),
    "update-machine-ad": (
        ("slotwise update-machine-ad -name ep1.example rack.ad", "further attributes, until its startd restarts"),
    ),
    "advertise": (("slotwise advertise UPDATE_AD_GENERIC licences.ad", "put an ad of your own into the collector"),),
    "off": (
        ("slotwise off -peaceful ep1.example", "stop its daemons when its jobs have ended"),
        ("slotwise off -startd", "this host's startd"),
    ),
    "on": (("slotwise on ep1.example", "start what `slotwise off` stopped"),),
    "set-shutdown": (("slotwise set-shutdown -exec REBOOT ep1.example", "run MASTER_SHUTDOWN_REBOOT at its end"),),
    "vacate": (("slotwise vacate ep1.example", "send its jobs back to their queues"),),
    "schedd": (("slotwise schedd replay schedd-stimuli.jsonl", "take the recorded steps again"),),
    "startd": (("slotwise startd replay startd-stimuli.jsonl", "take the recorded steps again"),),
    "chirp": (("slotwise chirp set_job_attr Progress 42", "in a job: tell its ad how far it is"),),
    "transform-ads": (("slotwise transform-ads -rules my.xform -in jobs.ads -out -", "what a transform makes of ads"),),
    "gpu-discovery": (("slotwise gpu-discovery -properties", "the devices that the startd would offer"),),
    "gpu-utilization": (("slotwise gpu-utilization --reports 1", "their use, once"),),
    "gather-info": (("slotwise gather-info -jobid 12.3", "an archive for whoever is to help with a job"),),
    "classad": (
        ('slotwise classad eval \'split("ann@here", "@")[0]\'', "the value of an expression"),
        ("slotwise classad match job.ad slot.ad", "whether they match, clause by clause"),
    ),
    "condor-names": (("export PATH=$(slotwise condor-names):$PATH", "have condor_q and its kin"),),
    "glidein": (
        ("slotwise glidein --pool cm.example --token glidein.token --lifetime 8h", "an execution point in a batch job"),
    ),
    "preen": (("slotwise preen", "what nothing needs any more"),),
    "backup": (("slotwise backup pool.tar.gz", "copy the state of the running pool"),),
    "restore": (("slotwise restore pool.tar.gz", "put it back, on this host or another"),),
    "completion": (("source <(slotwise completion bash)", "complete commands, options and names in this shell"),),
}
