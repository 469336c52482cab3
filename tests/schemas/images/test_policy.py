"""The policy of dataset.json is read back as it was, and one of an older version gets the defaults."""

import json
from dataclasses import asdict

import pytest

from schemas.images.policy import Policy


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(resize=10, background=(1, 2, 3), depth_range=(-1.5, 7), animation="reject")]
)
def test_policy_is_equal_after_a_json_round_trip(policy: Policy) -> None:
    assert Policy.from_dict(json.loads(json.dumps(asdict(policy)))) == policy


def test_missing_fields_get_defaults_and_unknown_fields_are_ignored() -> None:
    assert Policy.from_dict({"resize": 10, "of_a_later_version": 1}) == Policy(resize=10)
