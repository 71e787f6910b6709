"""Runs Chromium without a screen: takes pictures of pages and reads their documents."""
import collections
import shutil
import struct
import subprocess
import tempfile
import zlib

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def chromium():
    return shutil.which("chromium")  # None = not installed


def _run(*words):
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [chromium(), *FLAGS, f"--user-data-dir={profile}", *words],
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout, done.stderr


def shoot(url, file, width=1280, height=1800, seconds=9, dark=False):
    """Takes a picture after `seconds` of the page's own time."""
    _run(
        f"--window-size={width},{height}",
        f"--virtual-time-budget={int(seconds * 1000)}",
        f"--screenshot={file}",
        *(["--blink-settings=preferredColorScheme=0", "--force-dark-mode"] if dark else []),
        url,
    )


def document(url, seconds=9):
    """Returns the document after `seconds` of the page's own time, and the console's output."""
    return _run(f"--virtual-time-budget={int(seconds * 1000)}", "--enable-logging=stderr", "--dump-dom", url)


def shrink(file, colours=128):
    """Rewrites the picture with fewer colours: pages have few, and the file shrinks to a third."""
    data = open(file, "rb").read()
    at, parts, width, height, depth = 8, b"", 0, 0, 0
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
            depth = {2: 3, 6: 4}[colour]
        parts += body if kind == b"IDAT" else b""
        at += 12 + size
    rows = _unfiltered(zlib.decompress(parts), width * depth, depth)
    pixels = [bytes(row[i : i + 3]) for row in rows for i in range(0, width * depth, depth)]
    palette = [colour for colour, _ in collections.Counter(pixels).most_common(colours)]
    nearest = {}
    for pixel in set(pixels):
        nearest[pixel] = min(
            range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(pixel, palette[i]))
        )
    indices = bytes(nearest[pixel] for pixel in pixels)
    lines = b"".join(b"\0" + indices[y * width : (y + 1) * width] for y in range(height))
    chunk = (
        lambda kind, body: struct.pack(">I", len(body))
        + kind
        + body
        + struct.pack(">I", zlib.crc32(kind + body))
    )
    with open(file, "wb") as out:
        out.write(
            data[:8]
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
            + chunk(b"PLTE", b"".join(palette))
            + chunk(b"IDAT", zlib.compress(lines, 9))
            + chunk(b"IEND", b"")
        )


def _unfiltered(data, stride, depth):
    """Returns the rows of a PNG before filtering (PNG, 9.2)."""
    rows, above = [], bytearray(stride)
    for begin in range(0, len(data), stride + 1):
        kind, row = data[begin], bytearray(data[begin + 1 : begin + 1 + stride])
        for i in range(stride):
            left, up = row[i - depth] if i >= depth else 0, above[i]
            corner = above[i - depth] if i >= depth else 0
            guess = left + up - corner
            paeth = min((left, up, corner), key=lambda one: abs(guess - one))
            row[i] = (row[i] + (0, left, up, (left + up) // 2, paeth)[kind]) & 255
        rows.append(row)
        above = row
    return rows
