import pytest

from trainer.errors import Busy
from trainer.nn.collective_errors import collective_errors


@pytest.mark.parametrize(
    "text",
    [
        "\n---\n- Kernel error:\n---\nLaunch kernel failed: Default/AllReduce-op0",
        "Launch kernel failed: Default/step/_Gather-op1/AllGather-op3",
        "The state of the cluster is error, total nodes num: 2, abnormal nodes num: 1",
        "The total number of timed out node is 1. Timed out node list is: [const vector]{1}",
    ],
)
def test_collective_that_waited_too_long_is_to_be_tried_again(text: str) -> None:
    with pytest.raises(Busy, match=r"rank 0 on .* after step 7"), collective_errors(lambda: 7):
        raise RuntimeError(text)


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError, match="Conv2D"), collective_errors(lambda: 7):
        raise RuntimeError("Launch kernel failed: Default/Conv2D-op0")
