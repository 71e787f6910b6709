#!/usr/bin/env python3
"""Checks that systemd understands the unit of a node together with the drop-in for GPUs
(deploy/systemd/gpu.conf). Skips where systemd-analyze is missing."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SYSTEMD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "systemd")


def complaints(change=lambda text: text):
    """Returns what systemd-analyze says of the unit with the drop-in, after a change of the drop-in."""
    with tempfile.TemporaryDirectory() as folder:
        unit = os.path.join(folder, "troupe@.service")
        with open(os.path.join(SYSTEMD, "troupe@.service")) as source, open(unit, "w") as file:
            file.write(source.read().replace("/usr/local/bin/troupe", "/bin/true"))
        os.mkdir(unit + ".d")
        with open(os.path.join(SYSTEMD, "gpu.conf")) as source, open(unit + ".d/gpu.conf", "w") as file:
            file.write(change(source.read()))
        ran = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", os.path.join(folder, "troupe@x.service")],
            env=os.environ | {"SYSTEMD_UNIT_PATH": folder + ":"},
            capture_output=True,
            text=True,
        )
    return [line for line in (ran.stdout + ran.stderr).splitlines() if "troupe" in line]


class GpuUnit(unittest.TestCase):
    def test_the_unit_with_the_drop_in_is_understood(self):
        self.assertEqual(complaints(), [])

    def test_a_mistake_in_the_drop_in_would_be_reported(self):
        said = complaints(lambda text: text.replace("DevicePolicy", "DevicePolitics"))
        self.assertTrue(any("DevicePolitics" in line for line in said), said)


if __name__ == "__main__":
    if not shutil.which("systemd-analyze"):
        print("skipped: no systemd-analyze")
        sys.exit(77)
    unittest.main()
