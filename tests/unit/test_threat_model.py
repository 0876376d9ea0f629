"""The page of the threat model promises something of each attacker, and a test shows it: that test is named here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/concepts/threat-model.md").read_text()

#: By the attacker's words on the page: files of tests, and in them the tests that carry the attack out.
SHOWN: dict[str, dict[str, tuple[str, ...]]] = {
    "a connection, and nothing else": {
        "service/test_security.py": ("test_nobody_may_do_anything_but_ping",),
        "pool/test_memory_of_strangers.py": ("test_refused_calls_are_not_read",),
        "service/test_connections_of_one_address.py": (
            "test_connections_without_a_valid_token_end_and_those_with_one_stay",
        ),
        "service/test_requests_of_one_account.py": (
            "test_twenty_requests_of_one_account_shut_no_other_account_out",
        ),
        "service/test_shared_port.py": (
            "test_connections_that_say_nothing_keep_nobody_out",
            "test_accounts_that_take_all_connections_keep_no_other_out",
            "test_a_side_that_takes_nothing_any_more_keeps_no_place",
        ),
    },
    "an account on a host of the pool, root's daemons": {
        "service/test_attacks_on_identity.py": ("test_a_local_account_needs_no_token_and_is_who_the_kernel_says",),
        "service/test_callers.py": ("test_who_may_call_what",),
        "host/test_planted_control_files.py": (
            "test_a_starter_of_roots_kills_and_writes_nothing_that_a_planted_directory_names",
        ),
        "host/test_links_in_others_directories.py": (
            "test_a_backfill_client_lays_no_link_to_a_file_of_roots",
            "test_statistics_of_transfers_go_by_no_link_to_a_file_of_roots",
        ),
        "pool/test_secrets.py": ("test_what_holds_secrets_is_closed_to_others",),
    },
    "an account on a host where another user runs a pool of their own": {
        "host/test_personal_pool_of_a_user.py": (
            "test_another_account_reaches_no_socket_and_does_not_see_the_page",
            "test_the_daemons_refuse_it_where_the_sockets_are_open",
        ),
    },
    "READ": {
        "service/test_questions_in_turn.py": (
            "test_hostile_queries_at_once_cost_the_collector_a_slice_at_a_time",
        ),
        "pool/test_web_bounds.py": ("test_large_ads_travel_in_pieces_and_whole_answers_are_bounded",),
        "service/test_collector.py": (
            "test_a_reader_that_stalls_holds_up_nobody_and_costs_a_few_pieces_only",
        ),
    },
    "WRITE": {
        "service/schedd/test_forged_owners.py": (
            "test_a_job_of_a_submission_cannot_forge",
            "test_an_edit_cannot_forge",
        ),
        "service/schedd/test_bounds.py": (
            "test_limits_of_an_owner_and_of_the_queue",
            "test_bytes_of_a_submission_are_bounded",
            "test_reserved_ids_are_bounded_and_belong_to_who_asked",
        ),
    },
    "WRITE of another domain, without a local account": {
        "host/test_users_of_other_domains.py": (
            "test_files_of_root_stay_out_of_reach",
            "test_neither_does_chirp_reach_them",
            "test_neither_do_proxies_logs_and_spooled_files",
        ),
    },
    "a job's rights": {
        "host/test_hostile_jobs.py": (
            "test_ads_written_beside_the_jobs_files_follow_no_link",
            "test_standard_output_is_what_the_job_wrote_there",
        ),
        "host/test_transfer.py": (
            "test_a_link_reaches_nothing_that_the_job_may_not_read",
            "test_an_input_name_cannot_leave_the_scratch_directory",
        ),
        "host/test_private_tmp.py": ("test_another_user_neither_reads_nor_plants_files",),
        "unit/test_starter_facts.py": ("test_plugins_get_no_token_of_who_started_the_daemons",),
    },
    # What nothing stops, the page says.
    "the rights of another job of the same account": {},
    "ADVERTISE_STARTD (a glide-in, a host's token)": {
        "service/test_ads_of_others.py": ("test_a_host_cannot_speak_for_another",),
        "service/test_what_one_sender_advertises.py": (
            "test_a_token_alone_does_not_pass_for_a_host_that_proves_its_name",
            "test_a_token_alone_adds_so_many_ads_at_a_time_and_the_others_later",
        ),
        "pool/test_glidein.py": ("test_its_token_advertises_execution_points_and_does_nothing_else",),
        "service/test_shared_port.py": (
            "test_a_connection_registers_a_few_hosts_and_says_which_in_time",
            "test_who_has_no_level_registers_nothing_and_nobody_takes_the_place_of_a_host",
        ),
    },
    "ADVERTISE_SCHEDD": {
        "service/test_attacks_on_identity.py": (
            "test_what_the_negotiator_shows_to_a_hostile_access_point_is_worth_nothing_elsewhere",
        ),
        "service/test_ads_of_others.py": ("test_an_ad_does_not_lead_to_the_daemon_of_another",),
    },
    "NEGOTIATOR": {
        "service/test_callers.py": ("test_who_may_call_what",),
    },
    "DAEMON": {
        "service/test_callers.py": ("test_who_may_call_what",),
        "host/test_starter_of_root.py": ("test_what_the_startd_shows_nobody_else_can_make",),
    },
    "root on an execution point": {
        "service/test_attacks_on_identity.py": ("test_root_on_an_execution_host_is_nobody_but_that_host",),
        "service/test_nodes.py": ("test_a_removed_hosts_proof_is_refused_though_its_token_has_not_ended",),
    },
    "root on an access point": {
        "service/test_moved_schedds.py": (
            "test_nobody_moves_the_runs_of_another_schedd",
            "test_another_access_point_that_takes_a_schedds_name_does_not_take_its_place",
        ),
    },
    "a stolen archive of a backup": {
        "host/test_restored_owners.py": ("test_an_archive_opens_nothing_of_the_daemons_to_others",),
        "unit/test_tokens.py": ("test_keys_are_replaced_while_the_pool_runs",),
        "pool/test_tokens.py": ("test_a_fetched_token_counts_at_all_daemons_until_it_is_revoked",),
    },
    "a hostile page in a user's browser": {
        "host/test_sessions_of_the_page.py": ("test_another_account_that_has_the_cookie_has_nothing",),
        "unit/web/test_api.py": ("test_a_change_with_a_cookie_needs_the_header_that_no_other_site_can_send",),
    },
}  # fmt: skip


def attackers() -> list[str]:
    """The rows of the table of attackers."""
    table = PAGE.partition("## What an attacker can do at most")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    return rows[2:] if rows[1].startswith("---") else rows[1:]


def test_each_attacker_of_the_page_is_attacked_with() -> None:
    assert attackers() == list(SHOWN), "say which tests show what the page promises"


@pytest.mark.parametrize("attacker", SHOWN)
def test_the_tests_are_there(attacker: str) -> None:
    for file, names in SHOWN[attacker].items():
        text = (TESTS / file).read_text()
        for name in names:
            assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{file} has no {name}"


def test_what_nothing_stops_is_said() -> None:
    unshown = [attacker for attacker, tests in SHOWN.items() if not tests]
    for attacker in unshown:
        assert re.search(rf"\| {re.escape(attacker)} \|[^|]*\| nothing:", PAGE), attacker
