"""An exporter of the kind that pools run: metrics of prometheus_client from the ads that the bindings give."""

import htcondor
from prometheus_client import CollectorRegistry, Gauge, generate_latest

if __name__ == "__main__":
    registry = CollectorRegistry()
    slots = Gauge("condor_slots", "slots by state and activity", ["machine", "state", "activity"], registry=registry)
    jobs = Gauge("condor_jobs", "jobs by submitter and state", ["submitter", "state"], registry=registry)
    queued = Gauge("condor_queue", "jobs of a schedd by state", ["schedd", "state"], registry=registry)
    factor = Gauge("condor_factor", "priority factor", ["submitter"], registry=registry)
    collector = htcondor.Collector()
    for ad in collector.query(htcondor.AdTypes.Startd, "true", ["Name", "Machine", "State", "Activity"]):
        slots.labels(ad["Machine"], ad["State"], ad["Activity"]).inc()
    submit = htcondor.Submit({"executable": "/bin/sleep", "arguments": "1000", "requirements": "false"})
    for location in collector.locateAll(htcondor.DaemonTypes.Schedd):
        schedd = htcondor.Schedd(location)
        with schedd.transaction() as transaction:
            cluster = submit.queue(transaction, 3)
        for job in schedd.xquery(requirements=f"ClusterId == {cluster}", projection=["Owner", "JobStatus"]):
            jobs.labels(job["Owner"], str(job["JobStatus"])).inc()
        (totals,) = schedd.query(opts=htcondor.QueryOpts.SummaryOnly)
        queued.labels(location["Name"], "idle").set(totals["AllusersIdle"])
        schedd.act(htcondor.JobAction.Remove, f"ClusterId == {cluster}")
    for ad in htcondor.Negotiator().getPriorities():
        factor.labels(ad["Name"]).set(ad["PriorityFactor"])
    text = generate_latest(registry).decode()
    for line in ('condor_slots{activity="Idle"', 'condor_jobs{state="1"', "condor_queue{", "condor_factor{"):
        assert line in text, text
    print("done")
