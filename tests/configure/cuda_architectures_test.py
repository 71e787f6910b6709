#!/usr/bin/env python3
"""Tests cmake/cuda_architectures.cmake: which lists of CUDA architectures a configuration takes, which of
them have the kernels for Hopper, and what the error says about the others. Needs cmake and no nvcc."""
import os
import subprocess
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def configure(architectures, version="13.0.88"):
    """Returns what the function said, or its error, as one line."""
    text = (
        f'include("{ROOT}/cmake/cuda_architectures.cmake")\n'
        f'troupe_check_cuda_architectures("{architectures}" {version} hopper)\n'
        'message(STATUS "hopper ${hopper}")\n'
    )
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "try.cmake")
        with open(script, "w") as file:
            file.write(text)
        ran = subprocess.run(["cmake", "-P", script], capture_output=True, text=True)
    return ran.returncode, " ".join((ran.stdout + ran.stderr).split())


class CudaArchitectures(unittest.TestCase):
    def test_a_list_with_90a_has_the_kernels_for_hopper(self):
        for architectures in ("80;90a", "90a", "90a-real", "80-real;90a;100a", "80;90a;120f"):
            self.assertEqual(configure(architectures), (0, "-- hopper ON"), architectures)

    def test_a_list_without_90a_falls_back_and_says_so(self):
        for architectures in ("80", "90", "80-real;86", "80;100a", "90-virtual"):
            code, said = configure(architectures)
            self.assertEqual(code, 0, said)
            self.assertIn("lacks 90a: on Hopper", said)
            self.assertTrue(said.endswith("-- hopper OFF"), said)

    def test_a_list_for_later_devices_alone_says_nothing_of_hopper(self):
        self.assertEqual(configure("100a"), (0, "-- hopper OFF"))

    def test_other_lists_are_refused_by_name(self):
        for architectures, part in (
            ("", "TROUPE_CUDA_ARCHITECTURES is empty; expected numbers such as 80;90a"),
            ("native", 'has "native"; expected numbers such as 80;90a'),
            ("80;sm_90a", 'has "sm_90a"; expected numbers'),
            ("75", "has 75; expected 80 or newer"),
            ("80;70-real", "has 70-real; expected 80 or newer"),
        ):
            code, said = configure(architectures)
            self.assertNotEqual(code, 0, architectures)
            self.assertIn(part, said)

    def test_an_old_compiler_is_refused_by_its_version(self):
        code, said = configure("80", "11.8.89")
        self.assertNotEqual(code, 0)
        self.assertIn("nvcc is 11.8.89; expected 12.0 or newer", said)


if __name__ == "__main__":
    unittest.main()
