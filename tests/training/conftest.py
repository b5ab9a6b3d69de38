"""What tests of training share."""

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def gradients():
    """Workers that other tests make in this process switch them off for good, as they do in their own."""
    with torch.enable_grad():
        yield
