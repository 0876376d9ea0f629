"""Mails to users of jobs: which are sent, whom they reach, and their texts, which are HTCondor's."""

from __future__ import annotations

import time
from typing import Any

import pytest
from slotwise.classad import ClassAd
from slotwise.mail.message import Mail, as_message, mail_call, recipients, sendmail_call
from slotwise.mail.settings import MailSettings
from slotwise.schedd.jobs.decision import Notice, NoticeKind
from slotwise.schedd.jobs.job import Cluster, Job
from slotwise.schedd.notify.job_mail import compose, is_wanted

NEVER, ALWAYS, COMPLETE, ERROR, START = range(5)
SUBMITTED, ENDED = 1_700_000_000, 1_700_090_061
SETTINGS = MailSettings(host="submit.example.org", admin="root@submit.example.org", uid_domain="example.org")
FOOT = (
    "\n\n-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=-=\n"
    "Questions about this message or HTCondor in general?\n"
    "Email address of the local HTCondor administrator: root@submit.example.org\n"
    "The Official HTCondor Homepage is https://htcondor.org/\n"
)
HEAD = 'This is an automated email from the Condor system\non machine "submit.example.org".  Do not reply.\n\n'


def job(number: int = 12, proc: int = 3) -> Job:
    cluster = Cluster(number, "ann", "ann@example.org", "ann@example.org", SUBMITTED, {})
    return Job(cluster, proc, 2)


def ad(**attributes: Any) -> ClassAd:
    return ClassAd(
        {
            "Owner": "ann",
            "Cmd": "/home/ann/sim",
            "Arguments": "--seed 7",
            "Iwd": "/home/ann/run",
            "JobUniverse": 5,
            "JobStatus": 4,
            "QDate": SUBMITTED,
            **attributes,
        }
    )


def mailed(notice: Notice, found: ClassAd, settings: MailSettings = SETTINGS) -> Mail:
    mail, refused = compose(notice, found, ENDED, settings)
    assert mail is not None and not refused
    return mail


def test_the_mail_of_an_exit_is_htcondors() -> None:
    found = ad(
        JobBatchName="scan",
        ExitBySignal=False,
        ExitCode=3,
        ImageSize=2048,
        RemoteUserCpu=61.5,
        RemoteSysCpu=2.5,
        LastRemoteWallClockTime=75.0,
        RemoteWallClockTime=90000.0,
        BytesSent=3.0 * 1024 * 1024,
        BytesRecvd=1024.0,
        EmailAttributes="RequestMemory, Undone,Project",
        RequestMemory=128,
        Project="top",
    )
    mail = mailed(Notice(job(), NoticeKind.EXITED, sent=2048.0, received=12.0), found)
    assert (mail.recipients, mail.subject) == (("ann@example.org",), "[Condor] Condor Job 12.3")
    assert mail.body == (
        HEAD + "Condor job 12.3\n"
        "\t/home/ann/sim --seed 7\n"
        "\tfrom batch scan\n"
        "\tsubmitted from directory /home/ann/run\n"
        "exited normally with status 3\n"
        "\n\n"
        f"Submitted at:        {time.ctime(SUBMITTED)}\n"
        f"Completed at:        {time.ctime(ENDED)}\n"
        "Real Time:             1+01:01:01\n"
        "\n"
        "Virtual Image Size:  2048 Kilobytes\n"
        "\n"
        "Statistics from last run:\n"
        "Allocation/Run time:       0+00:01:15\n"
        "Remote User CPU Time:      0+00:01:01\n"
        "Remote System CPU Time:    0+00:00:02\n"
        "Total Remote CPU Time:     0+00:01:04\n"
        "\n"
        "Statistics totaled from all runs:\n"
        "Allocation/Run time:       1+01:00:00\n"
        "\n"
        "Network:\n"
        "   12.0 B  Run Bytes Received By Job\n"
        "    2.0 KB Run Bytes Sent By Job\n"
        " 1024.0 B  Total Bytes Received By Job\n"
        "    3.0 MB Total Bytes Sent By Job\n"
        "\n\n"
        "RequestMemory = 128\n"
        'Project = "top"\n' + FOOT
    )


def test_the_mail_of_a_hold_is_htcondors() -> None:
    mail = mailed(Notice(job(), NoticeKind.HELD, "Out of disk", 21), ad())
    assert mail.subject == "[Condor] Condor Job 12.3 put on hold"
    about = "Condor job 12.3\n\t/home/ann/sim --seed 7\n\tsubmitted from directory /home/ann/run\n"
    assert mail.body == f"{HEAD}{about}\nis being put on hold.\n\nOut of disk{FOOT}"


def test_the_mails_of_a_removal_and_of_a_start_are_htcondors() -> None:
    removed = mailed(Notice(job(), NoticeKind.REMOVED, "too old"), ad())
    assert removed.subject == "[Condor] Condor Job 12.3 removed"
    assert "\nis being removed.\n\ntoo old\n" in removed.body
    started = mailed(Notice(job(), NoticeKind.STARTED), ad(RemoteHost="slot1@ep"))
    assert started.subject == "[Condor] Condor Job 12.3" and "\nhas started on slot1@ep\n\n" in started.body


def test_a_signal_and_a_core_file_are_told() -> None:
    mail = mailed(Notice(job(), NoticeKind.EXITED, core=True), ad(ExitBySignal=True, ExitSignal=11))
    assert "\ndied on signal 11\nCore file generated\n\n\nSubmitted at:" in mail.body


@pytest.mark.parametrize("universe", [7, 12])
def test_jobs_that_run_on_the_access_point_have_no_network(universe: int) -> None:
    assert "Network" not in mailed(Notice(job(), NoticeKind.EXITED), ad(JobUniverse=universe)).body


@pytest.mark.parametrize(
    ("wish", "notice", "attributes", "expected"),
    [
        (NEVER, {"kind": NoticeKind.EXITED}, {"ExitCode": 1}, False),
        (COMPLETE, {"kind": NoticeKind.EXITED}, {"ExitCode": 0}, True),
        (COMPLETE, {"kind": NoticeKind.HELD, "hold_code": 12}, {}, False),
        (ALWAYS, {"kind": NoticeKind.HELD, "hold_code": 1}, {}, True),
        (ALWAYS, {"kind": NoticeKind.REMOVED}, {}, True),
        (ALWAYS, {"kind": NoticeKind.STARTED}, {}, False),
        (ERROR, {"kind": NoticeKind.EXITED}, {"ExitCode": 0, "ExitBySignal": False}, False),
        (ERROR, {"kind": NoticeKind.EXITED}, {"ExitCode": 2, "JobSuccessExitCode": 2}, False),
        (ERROR, {"kind": NoticeKind.EXITED}, {"ExitCode": 0, "JobSuccessExitCode": 2}, True),
        (ERROR, {"kind": NoticeKind.EXITED}, {"ExitCode": 1, "ExitBySignal": False}, True),
        (ERROR, {"kind": NoticeKind.EXITED}, {"ExitBySignal": True, "ExitSignal": 9}, True),
        (ERROR, {"kind": NoticeKind.HELD, "hold_code": 12}, {}, True),
        (ERROR, {"kind": NoticeKind.HELD, "hold_code": 3}, {}, False),  # by the job's own policy
        (ERROR, {"kind": NoticeKind.HELD, "hold_code": 1}, {}, False),  # by a user
        (ERROR, {"kind": NoticeKind.REMOVED}, {}, False),
        (START, {"kind": NoticeKind.STARTED}, {}, True),
        (START, {"kind": NoticeKind.EXITED}, {"ExitCode": 1}, False),
        (77, {"kind": NoticeKind.EXITED}, {}, True),  # "when in doubt, better send it"
        ("Always", {"kind": NoticeKind.EXITED}, {}, False),  # not a number: as without the attribute
    ],
)
def test_jobnotification_says_which_mails_are_sent(
    wish: Any, notice: dict[str, Any], attributes: dict[str, Any], expected: bool
) -> None:
    assert is_wanted(Notice(job(), **notice), ad(JobNotification=wish, **attributes)) is expected


@pytest.mark.parametrize(
    ("attributes", "email_domain", "to"),
    [
        ({}, "", ("ann@example.org",)),
        ({"UidDomain": "cs.example.org"}, "", ("ann@cs.example.org",)),
        ({"UidDomain": "cs.example.org"}, "mail.example.org", ("ann@mail.example.org",)),
        ({"NotifyUser": "bob"}, "", ("bob@example.org",)),
        ({"NotifyUser": "bob@x.org, eve@y.org"}, "", ("bob@x.org", "eve@y.org")),
        ({"NotifyUser": "bob, eve"}, "", ("bob", "eve@example.org")),  # as HTCondor completes it
    ],
)
def test_a_mail_goes_to_the_user_whom_the_job_names(
    attributes: dict[str, Any], email_domain: str, to: tuple[str, ...]
) -> None:
    settings = MailSettings(host="h", uid_domain="example.org", email_domain=email_domain)
    assert mailed(Notice(job(), NoticeKind.EXITED), ad(**attributes), settings).recipients == to


@pytest.mark.parametrize(
    "word",
    ["-oQ/tmp@x.org", "-X/etc/cron.d/x", "|/bin/sh@x.org", "/etc/passwd", "a@b.org\nBcc:c@d.org", "a;b@x.org",
     "etc/cron.d/x", "tmp/x@x.org", "a=/b@x.org", "a@x.org/b",
     "`id`@x.org", "a@b@c", "<a@b.org>", "a@-b.org", "\x1b[2J@x.org", "é@x.org", "a" * 300 + "@x.org", "@x.org"],
)  # fmt: skip
def test_what_is_not_a_plain_address_is_refused(word: str) -> None:
    found = recipients(f"ann@x.org,{word}")
    assert found.addresses == ("ann@x.org",) and len(found.refused) == 1
    assert found.refused[0].isprintable()


def test_a_mail_without_an_address_is_not_sent() -> None:
    mail, refused = compose(Notice(job(), NoticeKind.EXITED), ad(NotifyUser="-v@x.org"), ENDED, SETTINGS)
    assert mail is None and refused == ("-v@x.org",)


def test_a_mail_has_a_bounded_number_of_recipients() -> None:
    found = recipients(" ".join(f"u{n}@x.org" for n in range(50)))
    assert len(found.addresses) == 20 and len(found.refused) == 30


def test_texts_of_users_stay_on_their_lines() -> None:
    evil = "x\n.\nBcc: eve@x.org\r\n~!touch /tmp/owned\x1b]0;title\x07"
    found = ad(Cmd=evil, Arguments=evil, Iwd=evil, JobBatchName=evil, EmailAttributes="A", A=evil)
    plain = ad(Cmd="x", Arguments="x", Iwd="x", JobBatchName="x", EmailAttributes="A", A="x")
    for kind in NoticeKind:
        body = mailed(Notice(job(), kind, evil), found).body
        assert len(body.splitlines()) == len(mailed(Notice(job(), kind, "x"), plain).body.splitlines())
        assert "\x1b" not in body


def test_endless_texts_are_cut() -> None:
    found = ad(
        Cmd="c" * 10**6, EmailAttributes=",".join(f"A{n}" for n in range(5000)), **{f"A{n}": n for n in range(5000)}
    )
    assert len(mailed(Notice(job(), NoticeKind.EXITED, "r" * 10**6), found).body) < 20_000


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1e300, "text", True, 2**63 - 1])
def test_numbers_of_hostile_ads_have_a_text(value: Any) -> None:
    names = ("QDate", "ImageSize", "RemoteUserCpu", "RemoteWallClockTime", "BytesSent", "ExitCode", "JobUniverse")
    assert "Condor job 12.3" in mailed(Notice(job(), NoticeKind.EXITED), ad(**dict.fromkeys(names, value))).body


def test_a_signature_replaces_htcondors() -> None:
    settings = MailSettings(host="h", uid_domain="x.org", signature="Yours, the pool")
    body = mailed(Notice(job(), NoticeKind.REMOVED, "why"), ad(), settings).body
    assert body.endswith("\n\nwhy\n\nYours, the pool\n")


def test_sendmail_reads_the_addresses_from_the_headers() -> None:
    call = sendmail_call("/usr/lib/sendmail", Mail(("a@x.org", "b@x.org"), "[Condor] s", "text\n.\n", "pool@x.org"))
    assert call.words == ("/usr/lib/sendmail", "-t", "-i")
    head, _, body = call.text.partition(b"\n\n")
    assert {b"From: pool@x.org", b"Subject: [Condor] s", b"To: a@x.org, b@x.org"} <= set(head.split(b"\n"))
    assert body == b"text\n.\n"


def test_mail_gets_the_subject_and_the_addresses_as_words() -> None:
    call = mail_call("/usr/bin/mail", Mail(("a@x.org", "b@x.org"), "[Condor] s", "text\n~!id\n.\n"))
    assert call.words == ("/usr/bin/mail", "-s", "[Condor] s", "a@x.org", "b@x.org")
    assert call.text == b"text\n ~!id\n .\n"
    assert mail_call("m", Mail(("a@x.org",), "s", "", "p@x.org")).words == ("m", "-s", "s", "-r", "p@x.org", "a@x.org")


def test_a_text_that_is_not_ascii_arrives_whole() -> None:
    message = as_message(Mail(("a@x.org",), "s", "Größe \udc80\n"))
    assert message.get_content() == "Größe ?\n"
