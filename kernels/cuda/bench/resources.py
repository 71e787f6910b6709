"""Prints the resources of GPU kernels from the compiler's output, one line per kernel. Used by
resources.sh.

  resources.py check WORK FILE ARCHITECTURE     compares counted instructions with those in kernels' names
  resources.py table WORK ARCHITECTURE NAME...  NAME: a source file of ../kernels

Instructions are counted in the machine code (cubin). An instruction of sm_70 to sm_90 has 16 bytes; its
lowest 12 bits are its operation, and bits 73 to 75 of a load or store of device memory are its width.
Registers and spills come from ptxas, threads from the kernel's PTX. Neither has the dynamic shared
memory: a kernel that uses it declares its threads as TROUPE_KERNEL((Sizes<…>::threads)), and the C++
compiler evaluates Sizes<…>::shared_bytes."""
import collections
import os
import re
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))

OPERATIONS = {0x23C: "HMMA", 0x9F0: "HGMMA", 0xDF0: "HGMMA", 0x83B: "LDSM", 0x844: "STSM", 0xFAE: "LDGSTS",
              0x3BA: "bulk", 0x5B4: "bulk", 0x5B2: "SYNCS", 0x9A7: "SYNCS", 0x5A7: "SYNCS", 0x308: "MUFU",
              0xB08: "MUFU", 0xF89: "SHFL", 0x989: "SHFL", 0x589: "SHFL", 0xB1D: "BAR", 0x983: "LDL",
              0x387: "STL"}
# Accesses to device memory. A `generic` one determines the memory at run time; it also counts as a load
# or store.
MEMORY = {0x981: "load", 0x980: "load", 0x986: "store", 0x985: "store"}
GENERIC = (0x980, 0x985)
COLUMNS = ["HMMA", "HGMMA", "LDSM", "STSM", "LDGSTS", "bulk", "SYNCS", "load.128", "load", "store.128",
           "store", "generic", "MUFU", "SHFL", "BAR", "LDL", "STL"]

# Limits of a multiprocessor (CUDA C++ Programming Guide, technical specifications per compute
# capability). Warps get registers in units of 256, in four parts of the multiprocessor; blocks get shared
# memory in units of 128 bytes, and each reserves 1 KiB.
Limits = collections.namedtuple("Limits", "warps blocks registers shared_bytes")
LIMITS = {"80": Limits(64, 32, 65536, 164 * 1024), "90a": Limits(64, 32, 65536, 228 * 1024)}

Taken = collections.namedtuple("Taken", "registers spilled static threads dynamic")


def operations(low, high):
    """Returns the categories in which an instruction is counted."""
    code = low & 0xFFF
    if code not in MEMORY:
        return [OPERATIONS.get(code, "other")]
    sixteen_bytes = (high >> 9 & 7) == 6
    return [MEMORY[code] + (".128" if sixteen_bytes else "")] + (["generic"] if code in GENERIC else [])


def instructions(path):
    """Returns {kernel: Counter of operations} from the ELF sections .text.<kernel>."""
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
            words = [struct.unpack_from("<QQ", code, i) for i in range(0, len(code), 16)]
            found[name[6:]] = collections.Counter(
                name for low, high in words for name in operations(low, high))
            found[name[6:]]["all"] = len(words)
    return found


def ptx_of(path):
    """Returns {kernel: its PTX text}, and the names of dynamic shared memory."""
    file, = (name for name in os.listdir(path) if name.endswith(".ptx"))
    text = open(os.path.join(path, file)).read()
    kernels = {match[1]: match[0] for match in re.finditer(r"\.entry (\w+)\(.*?\n}\n", text, re.DOTALL)}
    return kernels, re.findall(r"\.extern \.shared .*?(\w+)\[\]", text)


def reports(path):
    """Returns {kernel: (registers, spilled bytes, static shared bytes)} from the log of ptxas."""
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
    name = re.sub(r"\(anonymous namespace\)::|_GLOBAL__N__\w+::|troupe::kernels::cuda::|simt::|void ", "",
                  name)
    return re.sub(r"(\d+)u\b", r"\1", re.sub(r"\(.*\)$", "", name))


def sizes_of(source, name):
    """Returns the C++ expression for the dynamic shared memory of a kernel with this plain name."""
    kernel, _, arguments = name.rstrip(">").partition("<")
    declared = re.search(
        r"template <([^>]*)>\s*TROUPE_KERNEL\w*\(\((\w+)<([\w, ]+)>::threads\)[^;{]*?\b" + kernel + r"\(",
        source)
    if not declared:
        sys.exit(f"{kernel} uses dynamic shared memory; expected TROUPE_KERNEL((Sizes<...>::threads))")
    names = [parameter.split()[-1] for parameter in declared[1].split(",")]
    values = dict(zip(names, arguments.split(", ")))
    sizes = ", ".join(values.get(a.strip(), a.strip()) for a in declared[3].split(","))
    return declared[2] + "<" + sizes + ">::shared_bytes"


def dynamic_bytes(work, file, names):
    """Returns {plain name: bytes}, which the C++ compiler evaluates in the kernels' own file."""
    if not names:
        return {}
    source = open(os.path.join(HERE, "..", "kernels", file + ".cu")).read()
    probe = os.path.join(work, file + "_sizes")
    with open(probe + ".cc", "w") as out:
        out.write(f'#include "kernels/cuda/kernels/{file}.cu"\nnamespace troupe::kernels::cuda {{\n')
        for number, name in enumerate(names):
            out.write(f'extern "C" const unsigned long sizes_{number}_bytes = {sizes_of(source, name)};\n')
        out.write("}\n")
    subprocess.run(["g++", "-std=c++20", "-DTROUPE_EMULATED", "-I" + ROOT, "-w", "-S", probe + ".cc",
                    "-o", probe + ".s"], check=True)
    text = open(probe + ".s").read()
    return {name: int(re.search(rf"sizes_{number}_bytes:\s*\.quad\s+(\d+)", text)[1])
            for number, name in enumerate(names)}


def taken(work, file, architecture):
    """Returns {kernel: Taken} for one file."""
    path = os.path.join(work, file + "_" + architecture)
    kernels, dynamic = ptx_of(path)
    uses = [plain_name(kernel) for kernel, text in kernels.items() if any(name in text for name in dynamic)]
    bytes_of = dynamic_bytes(work, file, uses)
    found = {}
    for kernel, (registers, spilled, static) in reports(path).items():
        threads = int(re.search(r"\.(?:max|req)ntid (\d+)", kernels[kernel])[1])
        found[kernel] = Taken(registers, spilled, static, threads, bytes_of.get(plain_name(kernel), 0))
    return found


def blocks_held(kernel, limits):
    """Returns the number of its blocks that fit on one multiprocessor; 0 if it cannot run."""
    warps = -(-kernel.threads // 32)
    per_warp = -(-kernel.registers * 32 // 256) * 256
    by_registers = limits.registers // 4 // per_warp * 4 // (-(-warps // 4) * 4) if warps >= 4 else (
        limits.registers // 4 // per_warp * 4 // warps)
    shared = -(-(kernel.static + kernel.dynamic + 1024) // 128) * 128
    return min(limits.warps // warps, limits.blocks, by_registers, limits.shared_bytes // shared)


def check(work, file, architecture):
    for kernel, counts in instructions(os.path.join(work, file + "_" + architecture)).items():
        name, number = kernel.rsplit("_", 1)
        found = counts[name.replace("_", ".")]
        if found != int(number):
            sys.exit(f"{kernel}: {found} counted; expected {number}: the table of operations is wrong")


def table(work, architecture, files):
    limits = LIMITS[architecture]
    columns = ["registers", "spilled bytes", "shared bytes", "dynamic", "threads", "blocks", "occupancy %",
               "instructions"] + COLUMNS
    print("| kernel | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for file in files:
        found = taken(work, file, architecture)
        counted = instructions(os.path.join(work, file + "_" + architecture))
        for kernel, counts in sorted(counted.items(), key=lambda item: plain_name(item[0])):
            its = found[kernel]
            blocks = blocks_held(its, limits)
            occupancy = round(100 * blocks * -(-its.threads // 32) / limits.warps)
            numbers = [its.registers, its.spilled, its.static, its.dynamic, its.threads, blocks, occupancy,
                       counts["all"]] + [counts[column] for column in COLUMNS]
            print(f"| {plain_name(kernel)} | " + " | ".join(map(str, numbers)) + " |")


if __name__ == "__main__":
    if sys.argv[1] == "check":
        check(*sys.argv[2:])
    else:
        table(sys.argv[2], sys.argv[3], sys.argv[4:])
