"""Ctrl-C while a library does not return to Python."""

import signal
import subprocess
import sys
import time

import pytest

from tauslab.base.interrupts import ends_at_once
from tauslab.base.option_names import command_line

PROGRAM = """
from tauslab.base.interrupts import ends_at_once
from tauslab.base.option_names import command_line

with command_line(), ends_at_once():
    print("computing", flush=True)
    sum(range(10**12))  # which looks at no signal
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_ends_within_a_second(number):
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "computing\n"
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(timeout=20) == -number
        assert time.monotonic() - began < 2
    finally:
        process.kill()
        process.stdout.close()


def test_a_python_program_keeps_its_handlers():
    own = signal.getsignal(signal.SIGINT)
    with ends_at_once():
        assert signal.getsignal(signal.SIGINT) is own
    with command_line(), ends_at_once():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is own
