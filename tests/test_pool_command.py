"""What the commands of pools on other hosts make of their arguments."""

import socket
from types import SimpleNamespace

import psutil
import pytest

from engine import pool_command
from engine.errors import LabError
from engine.measure.device import usable_cores
from engine.serving.remote import Gate


def test_the_printed_line_has_an_address_that_others_can_reach(monkeypatch):
    """0.0.0.0 is where one listens and nowhere to go, and 127.0.0.1 is another host on every host."""

    def entry(address, family):
        return SimpleNamespace(address=address, family=family)

    found = {
        "lo": [entry("127.0.0.1", socket.AF_INET), entry("::1", socket.AF_INET6)],
        "net": [entry("10.1.2.3", socket.AF_INET), entry("fe80::1%net", socket.AF_INET6), entry("2001:db8::7", socket.AF_INET6)],
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: found)
    assert pool_command.reachable("0.0.0.0:7700") == "10.1.2.3:7700"
    assert pool_command.reachable("[::]:7700") == "[2001:db8::7]:7700"
    assert pool_command.reachable("192.0.2.1:7700") == "192.0.2.1:7700"
    del found["net"]
    assert pool_command.reachable("0.0.0.0:7700") == "127.0.0.1:7700"


def test_the_printed_line_names_what_is_needed():
    with Gate("127.0.0.1:0", "random-tiny") as gate:
        line = pool_command.join_line(gate, "decode")
        assert line == f"python -m engine pool --role decode --join {gate.address} --code {gate.code}"
        assert not gate.address.endswith(":0")


@pytest.mark.parametrize("text", ["", "x", "0,", "-1", "99999", "0-1", "٣"], ids=repr)
def test_cores_that_are_not_here_are_told(text):
    with pytest.raises(LabError) as caught:
        pool_command._cores(text)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == "--cores"


def test_cores_are_those_that_were_named():
    last = usable_cores()[-1]
    assert pool_command._cores(f"{last},{last}") == (last,)
    assert pool_command._cores(None) == usable_cores()
