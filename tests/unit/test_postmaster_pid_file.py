"""Reading what the postmaster writes about itself."""

import pytest

from pillarbox.database.postmaster import PidFile

READY = "4711\n/srv/data\n1712346200\n15433\n\n127.0.0.1\n  8826964     65536\nready   \n"


def test_line_eight_is_the_state_without_its_padding() -> None:
    assert PidFile.parse(READY) == PidFile(pid=4711, port=15433, status="ready")


def test_a_server_that_has_not_reached_line_eight_has_no_state() -> None:
    assert PidFile.parse("4711\n/srv/data\n1712346200\n15433\n") == PidFile(4711, 15433, "")


def test_a_single_user_server_is_known_by_its_negated_number() -> None:
    assert PidFile.parse("-4711\n/srv/data\n") == PidFile(4711, None, "")


@pytest.mark.parametrize("text", ["", "\n\n", "garbage\n", "\x00\x00"])
def test_a_file_cut_short_or_garbled_says_nothing(text: str) -> None:
    assert PidFile.parse(text) is None
