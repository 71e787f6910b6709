"""Counts instructions in GPU machine code (cubin files) and prints one line for each kernel. An instruction of sm_70 to
sm_90 is 16 bytes, whose lowest 12 bits are its operation; `check` compares the counts of kernels that say in their name
how many they have. Used by resources.sh."""
import collections
import re
import struct
import subprocess
import sys

OPERATIONS = {0x23C: "HMMA", 0x9F0: "HGMMA", 0xDF0: "HGMMA", 0x83B: "LDSM", 0xFAE: "LDGSTS", 0x308: "MUFU", 0xB08: "MUFU",
              0xF89: "SHFL", 0x989: "SHFL", 0x589: "SHFL", 0xB1D: "BAR", 0x983: "LDL", 0x387: "STL"}
COLUMNS = ["HMMA", "HGMMA", "LDSM", "LDGSTS", "MUFU", "SHFL", "BAR", "LDL", "STL"]


def instructions(path):
    """{kernel: Counter of operations} from the ELF sections .text.<kernel>."""
    data = open(path + ".cubin", "rb").read()
    table, = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * i) for i in range(count)]
    found = {}
    for section in sections:
        start = sections[names][4] + section[0]
        name = data[start:data.index(b"\0", start)].decode()
        if name.startswith(".text."):
            code = data[section[4]:section[4] + section[5]]
            words = (struct.unpack_from("<H", code, i)[0] & 0xFFF for i in range(0, len(code), 16))
            found[name[6:]] = collections.Counter(OPERATIONS.get(w, "other") for w in words)
    return found


def resources(path):
    """{kernel: (registers, spilled bytes, static shared bytes)} from what ptxas said."""
    found, kernel, spilled = {}, None, 0
    for line in open(path + ".log"):
        if match := re.search(r"Compiling entry function '(\S+)'", line):
            kernel = match[1]
        elif match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(match[1]) + int(match[2])
        elif match := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found[kernel] = (int(match[1]), spilled, int(shared[1]) if shared else 0)
    return found


def plain_name(kernel):
    name = subprocess.run(["c++filt", kernel], capture_output=True, text=True, check=True).stdout.strip()
    name = re.sub(r"\(anonymous namespace\)::|_GLOBAL__N__\w+::|troupe::kernels::cuda::|simt::|void ", "", name)
    return re.sub(r"(\d+)u\b", r"\1", re.sub(r"\(.*\)$", "", name))


def check(path):
    for kernel, counts in instructions(path).items():
        name, number = kernel.split("_")
        if counts[name] != int(number):
            sys.exit(f"{path}: {counts[name]} {name} counted; expected {number}: the table of operations is wrong")


def table(paths):
    print("| kernel | registers | spilled bytes | static shared bytes | " + " | ".join(COLUMNS) + " |")
    print("| --- |" + " ---: |" * (3 + len(COLUMNS)))
    for path in paths:
        taken = resources(path)
        for kernel, counts in sorted(instructions(path).items(), key=lambda item: plain_name(item[0])):
            numbers = list(taken[kernel]) + [counts[column] for column in COLUMNS]
            print(f"| {plain_name(kernel)} | " + " | ".join(map(str, numbers)) + " |")


if __name__ == "__main__":
    check(sys.argv[2]) if sys.argv[1] == "check" else table(sys.argv[2:])
