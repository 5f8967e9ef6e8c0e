"""Settings are read, checked, and refused with the name of the variable."""

from pathlib import Path

import pytest

from pillarbox.errors import ConfigurationError
from pillarbox.settings import VARIABLES, Settings, load


def test_nothing_set_gives_the_numbers_of_the_design() -> None:
    policy = load({}).delivery_policy
    assert (policy.batch_size, policy.max_attempts, policy.tick_seconds) == (25, 5, 15)
    assert policy.backoff.curve(policy.max_attempts) == [30, 120, 480, 1920]
    assert (policy.lease.seconds, policy.lease.run_timeout_seconds, policy.concurrency) == (300, 10, 5)


def test_values_are_converted() -> None:
    settings = load(
        {
            "PILLARBOX_PORT": "9000",
            "PILLARBOX_DATA_DIR": "/somewhere",
            "PILLARBOX_DATABASE_POOLED": "true",
            "PILLARBOX_DELIVERY_SEND_TIMEOUT": "2.5",
            "DATABASE_URL": "postgresql://u@h/d",
            "UNRELATED": "x",
        }
    )
    assert settings.port == 9000
    assert settings.data_dir == Path("/somewhere")
    assert settings.database_pooled is True
    assert settings.delivery_send_timeout == 2.5
    assert settings.database_url == "postgresql://u@h/d"


def test_an_empty_variable_counts_as_absent() -> None:
    assert load({"PILLARBOX_PORT": " "}).port == 8000


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PILLARBOX_PORT", "eighty"),
        ("PILLARBOX_PORT", "70000"),
        ("PILLARBOX_PORT", "-1"),
        ("PILLARBOX_PLATFORM", "mainframe"),
        ("PILLARBOX_DELIVERY_BATCH_SIZE", "0"),
        ("PILLARBOX_DELIVERY_BATCH_SIZE", "2.5"),
        ("PILLARBOX_DELIVERY_CONCURRENCY", "0"),
        ("PILLARBOX_DELIVERY_MAX_ATTEMPTS", "0"),
        ("PILLARBOX_DELIVERY_BACKOFF_JITTER", "1.5"),
        ("PILLARBOX_DELIVERY_BACKOFF_BASE", "nan"),
        ("PILLARBOX_DELIVERY_SEND_TIMEOUT", "0"),
        ("PILLARBOX_DELIVERY_CLAIM_LEASE", "nan"),
        ("PILLARBOX_DELIVERY_CLAIM_LEASE", "inf"),
        ("PILLARBOX_DATABASE_POOLED", "perhaps"),
        ("DATABASE_URL", "mysql://u@h/d"),
        ("DATABASE_URL", "postgresql://u:p[@h/d"),
        ("DATABASE_URL", "postgresql://h:abc/d"),
        ("PILLARBOX_WEBHOOK_URL", "http://["),
        ("PILLARBOX_DELIVERY_BACKOFF_CAP", "1e300"),
        ("PILLARBOX_SMTP_URL", "http://mail"),
        ("PILLARBOX_WEBHOOK_URL", "ftp://host"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(variable: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load({variable: value})
    assert variable in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="PILLARBOX_DELIVERY_BATCH"):
        load({"PILLARBOX_DELIVERY_BATCH": "5"})


def test_a_lease_too_short_for_the_batch_refuses_to_start_and_prints_the_sum() -> None:
    with pytest.raises(ConfigurationError) as refused:
        load({"PILLARBOX_DELIVERY_CLAIM_LEASE": "80"})
    assert "5 waves (ceil(25 / 5)) × 10 s + 30 s margin = 80 s" in str(refused.value)
    assert "PILLARBOX_DELIVERY_CLAIM_LEASE" in str(refused.value)


def test_every_setting_has_its_variable() -> None:
    assert set(VARIABLES) == set(Settings.__struct_fields__)
