#!/usr/bin/env python3
"""Imitates a slow or silent network link to a server on this machine, as a process of its own.

All connections share a number of bytes a second in each direction; every byte is also delayed. If the link is
silent, nothing comes through. Each line of JSON on standard input changes the named values (bytes_per_second,
delay_ms, silent); the answer is the number of bytes carried so far."""
import asyncio
import json
import os
import subprocess
import sys
import time

ADDRESS = "127.0.0.1"


class Link:
    """Runs a link from another process."""

    def __init__(self, port, target, **what):
        self.process = subprocess.Popen(
            [sys.executable, "-B", __file__, str(port), str(target)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.process.stdout.readline()  # it listens
        self.set(**what)

    def set(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def bytes(self):
        return self.set()

    def end(self):
        self.process.kill()
        self.process.wait()


class Carrier:
    def __init__(self, target):
        self.target = target
        self.what = {"bytes_per_second": 1e9, "delay_ms": 0, "silent": False}
        self.carried, self.free = 0, {"there": 0.0, "back": 0.0}
        self.speaks = asyncio.Event()

    def set(self, what):
        self.what.update(what)
        self.speaks.clear() if self.what["silent"] else self.speaks.set()

    async def carry(self, reader, writer, way):
        queue = asyncio.Queue(256)

        async def send():
            while (held := await queue.get()) is not None:
                await asyncio.sleep(max(0.0, held[0] - time.monotonic()))
                await self.speaks.wait()
                writer.write(held[1])
                await writer.drain()
            writer.close()

        sender = asyncio.create_task(send())
        try:
            while not sender.done() and (data := await reader.read(16384)):
                self.carried += len(data)
                self.free[way] = (
                    max(self.free[way], time.monotonic()) + len(data) / self.what["bytes_per_second"]
                )
                await queue.put((self.free[way] + self.what["delay_ms"] / 1e3, data))
        finally:
            if not sender.done():
                await queue.put(None)
            await sender

    async def join(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(ADDRESS, self.target)
            await asyncio.gather(
                self.carry(reader, far_writer, "there"), self.carry(far_reader, writer, "back")
            )
        except OSError:  # the server does not listen, or has closed
            writer.close()


async def run(port, target):
    carrier = Carrier(target)
    await asyncio.start_server(carrier.join, ADDRESS, port)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    print("ready", flush=True)
    while line := await orders.readline():
        carrier.set(json.loads(line))
        print(carrier.carried, flush=True)
    os._exit(0)  # drops what is still in flight


if __name__ == "__main__":
    asyncio.run(run(*map(int, sys.argv[1:3])))
