"""The subcommands of `slotwise`: name, module, one line of help, and whether the resident server may run it."""

from __future__ import annotations

from msgspec import Struct


class Command(Struct, frozen=True):
    """A subcommand: ``module`` has ``main(args: list[str], inv: Invocation) -> int``.

    ``alone``: beginnings of options that want a process of its own, because they take the caller's terminal, or time.
    """

    module: str
    help: str
    resident: bool = False
    alone: tuple[str, ...] = ()

    def may_be_resident(self, args: list[str]) -> bool:
        """Whether the resident server may run it with these arguments."""
        return self.resident and not (
            self.alone and any(word.lstrip("-").startswith(self.alone) for word in args if word.startswith("-"))
        )


COMMANDS: dict[str, Command] = {
    "up": Command("slotwise.cli.host.personal_pool:up", "start the pool in the background and wait until it answers"),
    "down": Command("slotwise.cli.host.personal_pool:down", "stop the pool"),
    "restart": Command("slotwise.cli.host.personal_pool:restart", "restart a daemon, or all"),
    "daemon": Command("slotwise.cli.host.personal_pool:daemon", "run one daemon in the foreground"),
    "reconfig": Command("slotwise.cli.host.personal_pool:reconfig", "make the daemons read the configuration again"),
    "ping": Command("slotwise.cli.pool.ping:main", "who answers, and what you may do there", resident=True),
    "token": Command("slotwise.cli.host.token:main", "make and show tokens"),
    "node": Command(
        "slotwise.cli.pool.node.main:main", "hosts of a pool: install, approve, list, drain, remove, uninstall"
    ),
    "submit": Command(
        "slotwise.cli.jobs.submit:main", "queue jobs from a submit description", resident=True, alone=("i", "wait")
    ),
    "q": Command("slotwise.cli.jobs.q:main", "jobs in the queue", resident=True),
    "history": Command("slotwise.cli.jobs.history:main", "jobs that have left the queue", resident=True),
    "rm": Command("slotwise.cli.jobs.act:rm", "remove jobs", resident=True),
    "hold": Command("slotwise.cli.jobs.act:hold", "hold jobs", resident=True),
    "release": Command("slotwise.cli.jobs.act:release", "release held jobs", resident=True),
    "suspend": Command("slotwise.cli.jobs.act:suspend", "suspend running jobs", resident=True),
    "continue": Command("slotwise.cli.jobs.act:continue_", "continue suspended jobs", resident=True),
    "vacate-job": Command("slotwise.cli.jobs.act:vacate_job", "send running jobs back to the queue", resident=True),
    "now": Command("slotwise.cli.jobs.now:main", "start a job at once in the place of running ones", resident=True),
    "prio": Command("slotwise.cli.jobs.edit:prio", "change job priorities", resident=True),
    "qedit": Command("slotwise.cli.jobs.edit:qedit", "change attributes of jobs", resident=True),
    "qusers": Command(
        "slotwise.cli.jobs.qusers:main", "the users of an access point: list, add, disable, edit", resident=True
    ),
    "store-cred": Command(
        "slotwise.cli.jobs.store_cred:main", "store, query and delete credentials of services for your jobs"
    ),
    "transfer-data": Command(
        "slotwise.cli.jobs.transfer_data:main", "fetch results of jobs submitted with -spool", resident=True
    ),
    "wait": Command("slotwise.cli.jobs.wait:main", "wait for jobs by their event log"),
    "dag": Command(
        "slotwise.cli.jobs.dag.main:main",
        "DAGs of jobs: check, submit, status, why, graph, halt, resume, retry, skip, rescue",
    ),
    "qsub": Command("slotwise.cli.jobs.qsub:main", "submit a batch script of PBS, Torque or SGE"),
    "evicted-files": Command("slotwise.cli.jobs.evicted_files:main", "what evicted runs have left for the next"),
    "watch-q": Command("slotwise.cli.jobs.watch_q:main", "follow jobs by their event logs"),
    "userlog": Command("slotwise.cli.jobs.userlog:main", "summarize the costs of job runs from event logs"),
    "check-userlogs": Command(
        "slotwise.cli.jobs.check_userlogs:main", "whether the entries of event logs fit together"
    ),
    "tail": Command("slotwise.cli.jobs.tail:main", "the ends of a running job's files"),
    "ssh-to-job": Command("slotwise.cli.jobs.ssh_to_job:main", "a shell beside a running job"),
    "status": Command("slotwise.cli.pool.status:main", "slots and daemons of the pool", resident=True),
    "who": Command("slotwise.cli.pool.who:main", "jobs and daemons of this machine"),
    "top": Command("slotwise.cli.pool.top:main", "what a daemon spends its time on"),
    "pool-job-report": Command("slotwise.cli.pool.pool_job_report:main", "how long jobs ran yesterday, by user"),
    "fetchlog": Command("slotwise.cli.pool.fetchlog:main", "a log of a machine's daemons"),
    "findhost": Command("slotwise.cli.pool.findhost:main", "slots whose loss costs running jobs least"),
    "userprio": Command("slotwise.cli.pool.userprio:main", "priorities and usage of submitters", resident=True),
    "reschedule": Command("slotwise.cli.pool.reschedule:main", "ask for a negotiation cycle", resident=True),
    "negotiator": Command("slotwise.cli.pool.negotiator:main", "look into the negotiator: last cycle, snapshot"),
    "demand": Command("slotwise.cli.pool.demand:main", "what idle jobs ask for that the pool could not give them"),
    "negotiate": Command("slotwise.cli.pool.negotiate:main", "run the negotiator on files, without a pool"),
    "analyze": Command("slotwise.cli.jobs.analyze:main", "why a job does not run"),
    "drain": Command("slotwise.cli.pool.drain:main", "drain a machine, or cancel that"),
    "power": Command(
        "slotwise.cli.pool.power:main", "wake machines that sleep; report what was saved, and try policies"
    ),
    "watch": Command("slotwise.cli.pool.watch:main", "pool, users and your jobs live in a terminal"),
    "report": Command("slotwise.cli.pool.report:main", "what became of the pool's time: usage, fairness, waste, waits"),
    "update-machine-ad": Command("slotwise.cli.pool.machine_ad:main", "add attributes to the ads of a machine's slots"),
    "advertise": Command(
        "slotwise.cli.pool.advertise:main", "put ads of any kind into the collector, or take them back"
    ),
    "off": Command("slotwise.cli.host.daemons:off", "stop daemons of a machine: graceful, fast, peaceful"),
    "on": Command("slotwise.cli.host.daemons:on", "start daemons that were stopped"),
    "set-shutdown": Command("slotwise.cli.host.daemons:set_shutdown", "the program that runs when a master ends"),
    "vacate": Command("slotwise.cli.pool.drain:vacate", "vacate slots"),
    "schedd": Command("slotwise.cli.pool.schedd:main", "replay recorded steps of claims and runs"),
    "startd": Command("slotwise.cli.pool.startd:main", "replay recorded slot transitions"),
    "chirp": Command("slotwise.cli.jobs.chirp:main", "in a running job: files, attributes and log of the access point"),
    "transform-ads": Command("slotwise.cli.jobs.transform_ads:main", "apply job transforms to ads, for testing"),
    "gpu-discovery": Command("slotwise.cli.host.gpu_discovery:main", "the GPUs of this host and their properties"),
    "gpu-utilization": Command(
        "slotwise.cli.host.gpu_utilization:main", "measure the use of GPUs for STARTD_CRON, until ended"
    ),
    "gather-info": Command("slotwise.cli.gather_info:main", "collect diagnostics for support"),
    "config": Command("slotwise.cli.host.config:main", "look into the configuration: val, dump, check, explain"),
    "classad": Command("slotwise.cli.host.classad:main", "evaluate, format and match ClassAds"),
    "condor-names": Command(
        "slotwise.cli.host.condor_names:main", "the directory of commands with HTCondor's names, for PATH"
    ),
    "glidein": Command(
        "slotwise.cli.host.glidein:main", "run an execution point inside another system's job, as an ordinary user"
    ),
    "preen": Command("slotwise.cli.host.preen:main", "list or remove what crashed daemons and runs have left"),
    "upgrade-check": Command(
        "slotwise.cli.host.upgrade_check:main", "not available: HTCondor's check of its own installation"
    ),
    "backup": Command("slotwise.cli.host.backup:backup", "copy the state of a running pool into a file"),
    "restore": Command("slotwise.cli.host.backup:restore", "put a backup into the pool's directory"),
    "completion": Command("slotwise.cli.completion:main", "completion of commands and options in shells"),
}

#: The commands in the order in which help shows them: what a person looks for first stands first.
GROUPS: dict[str, tuple[str, ...]] = {
    "Run jobs": (
        "submit", "q", "wait", "history", "rm", "hold", "release", "tail", "ssh-to-job", "transfer-data", "watch",
        "dag", "qsub",
    ),
    "Why does a job wait, or stop": ("analyze", "status", "userprio", "demand", "userlog", "check-userlogs", "watch-q"),
    "Change jobs": (
        "prio", "qedit", "suspend", "continue", "vacate-job", "now", "store-cred", "evicted-files", "chirp",
    ),
    "A pool of your own": ("up", "down", "restart", "reconfig", "config", "ping", "backup", "restore", "completion"),
    "A pool of hosts": (
        "node", "token", "who", "on", "off", "drain", "vacate", "power", "fetchlog", "findhost", "glidein",
        "set-shutdown", "qusers", "reschedule", "advertise", "update-machine-ad",
    ),
    "Look into the pool": ("negotiator", "top", "report", "pool-job-report", "gather-info", "preen"),
    "Without a pool, and for developers": (
        "negotiate", "classad", "transform-ads", "schedd", "startd", "gpu-discovery", "gpu-utilization", "daemon",
        "condor-names", "upgrade-check",
    ),
}  # fmt: skip
#: HTCondor's commands that are not a command of ours by another name, or that speak otherwise.
_OF_HTCONDOR: dict[str, Command] = {
    "off": Command("slotwise.cli.host.daemon_tool:off", "stop daemons"),
    "on": Command("slotwise.cli.host.daemon_tool:on", "start daemons"),
    "restart": Command("slotwise.cli.host.daemon_tool:restart", "restart daemons"),
    "reconfig": Command("slotwise.cli.host.daemon_tool:reconfig", "have daemons read their configuration again"),
    "set_shutdown": Command("slotwise.cli.host.daemon_tool:set_shutdown", "the program for the end of a master"),
    "run": Command("slotwise.cli.jobs.condor_run:main", "run a shell command as a job, and wait for it"),
    "submit_dag": Command("slotwise.cli.jobs.dag.submit:condor_submit_dag", "queue the job that runs a DAG"),
    "dagman": Command("slotwise.cli.jobs.dag.run:main", "run a DAG: the program of its job"),
    "manifest": Command("slotwise.cli.jobs.condor_manifest:main", "make and check manifests of checkpoints"),
    "master": Command("slotwise.cli.host.condor_master:main", "run the daemons of this host"),
    "config_val": Command("slotwise.cli.host.config_val:main", "values of the configuration", resident=True),
    "version": Command(
        "slotwise.cli.host.condor_names:version", "the release of HTCondor that is followed", resident=True
    ),
    "token_create": Command("slotwise.cli.host.token:create", "make a token"),
    "token_fetch": Command("slotwise.cli.host.token_requests:fetch", "a token for yourself"),
    "token_list": Command("slotwise.cli.host.token:list_", "your tokens"),
    "token_request": Command("slotwise.cli.host.token_requests:request", "ask for a token"),
    "token_request_approve": Command("slotwise.cli.host.token_requests:approve", "approve requests for tokens"),
    "token_request_auto_approve": Command(
        "slotwise.cli.host.token_requests:auto_approve", "approve a network's requests"
    ),
    "token_request_list": Command("slotwise.cli.host.token_requests:requests", "requests for tokens that wait"),
}
#: Commands of ours that HTCondor has none of.
_OURS_ALONE = frozenset(
    (
        "up",
        "down",
        "daemon",
        "token",
        "node",
        "negotiator",
        "negotiate",
        "demand",
        "analyze",
        "dag",
        "schedd",
        "startd",
        "config",
        "classad",
        "condor-names",
        "report",
        "watch",
        "glidein",
        "backup",
        "restore",
        "completion",
    )
)
HTCONDOR_PREFIX = "condor_"
#: HTCondor's command that is called by a noun and a verb.
VERB_NOUN = "htcondor"
#: HTCondor's commands whose names begin otherwise; rust/front hands these names on, too.
_NAMED_OTHERWISE: dict[str, Command] = {
    VERB_NOUN: Command("slotwise.cli.htcondor.main:main", "jobs, event logs and daemons by noun and verb"),
    "classad_eval": Command("slotwise.cli.host.classad_eval:main", "evaluate expressions in the context of ads"),
}
#: What each of HTCondor's names runs.
CONDOR_NAMES: dict[str, Command] = {
    HTCONDOR_PREFIX + name.replace("-", "_"): entry
    for name, entry in sorted(
        {**{name: entry for name, entry in COMMANDS.items() if name not in _OURS_ALONE}, **_OF_HTCONDOR}.items()
    )
} | _NAMED_OTHERWISE


def is_htcondors(name: str) -> bool:
    """Whether a name is of the form that HTCondor's commands have, be there such a command or none."""
    return name.startswith(HTCONDOR_PREFIX) or name in _NAMED_OTHERWISE


def find(name: str) -> Command | None:
    """The command of a name, ours or HTCondor's; ``vacate_job``, as HTCondor spells it, is ``vacate-job``."""
    if is_htcondors(name):
        return CONDOR_NAMES.get(name)
    return COMMANDS.get(name.replace("_", "-"))
