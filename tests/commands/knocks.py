#!/usr/bin/env python3
"""Opens connections to a node's HTTP server that send little or nothing: knocks.py PORT WHAT [MORE]

  open 5               opens 5 connections, one after the other; prints which are closed half a second
  later silent 2.5           sends an incomplete request; prints whether the server ends it within 2.5 s,
  but not at once half 300000 3        sends half of 3 requests of 300,000 bytes; prints which are closed,
  and with what answer
"""
import select
import socket
import sys
import time

PORT = int(sys.argv[1])


def connect():
    link = socket.create_connection(("127.0.0.1", PORT), timeout=20)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def said(link):
    """Returns what the server sent before it closed the connection, or None if the connection is open."""
    text = b""
    while select.select([link], [], [], 0)[0]:
        try:
            some = link.recv(65536)
        except ConnectionError:
            return text.decode()
        if not some:
            return text.decode()
        text += some
    return None


def tell(links):
    for number, link in enumerate(links, 1):
        answer = said(link)
        print(
            f"{number}: "
            + ("open" if answer is None else "closed" + (", " + answer.split("\r\n")[0] if answer else ""))
        )


def open_(count):
    links = []
    for _ in range(int(count)):
        links.append(connect())
        time.sleep(0.05)
    time.sleep(0.5)
    tell(links)


def silent(seconds):
    link, began = connect(), time.monotonic()
    link.send(b"GET / HTTP/1.1\r\n")
    ended = bool(select.select([link], [], [], float(seconds))[0])
    after = time.monotonic() - began
    print("ended" if ended and after > float(seconds) / 10 else "ended at once" if ended else "still open")


def half(size, count):
    links = []
    for _ in range(int(count)):
        link = connect()
        link.send(b"POST /v1/rank HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % int(size))
        link.settimeout(1)
        try:
            link.sendall(b" " * (int(size) // 2))
        except OSError:
            pass
        links.append(link)
        time.sleep(0.2)
    time.sleep(0.5)
    tell(links)


{"open": open_, "silent": silent, "half": half}[sys.argv[2]](*sys.argv[3:])
