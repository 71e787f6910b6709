#!/usr/bin/env python3
"""A server with scripted answers: answers.py FOLDER

Writes its port to FOLDER/port. Answers METHOD /a/b with the content of FOLDER/METHOD_a_b; if the first
line is a number, that is the status. Appends each request to FOLDER/asked. Ends when the folder is
removed.
"""
import http.server
import os
import pathlib
import sys
import threading
import time

FOLDER = pathlib.Path(sys.argv[1])


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        told = " ".join(
            f"{name}: {self.headers[name]}"
            for name in ("x-troupe-tenant", "authorization")
            if name in self.headers
        )
        with (FOLDER / "asked").open("a") as asked:
            asked.write(f"{self.command} {self.path} {told} {body}\n")
        file = FOLDER / (self.command + self.path.replace("/", "_"))
        text = file.read_text() if file.is_file() else "404\nnothing here"
        first, _, rest = text.partition("\n")
        status, text = (int(first), rest) if first.isdigit() else (200, text)
        self.send_response(status)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


def watch():
    while FOLDER.is_dir():
        time.sleep(0.2)
    os._exit(0)


threading.Thread(target=watch, daemon=True).start()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
(FOLDER / "port.part").write_text(str(server.server_port))
(FOLDER / "port.part").rename(FOLDER / "port")
server.serve_forever()
