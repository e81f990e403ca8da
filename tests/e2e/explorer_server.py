"""The explorer as a process of its own, as `metastable explore` starts it."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


class Server:
    def __init__(self, folder, port=None):
        self.folder, self.port = folder, port or free_port()
        self.start()

    def start(self, *more):
        env = {**os.environ, "PYTHONPATH": str(SOURCE)}
        command = [
            sys.executable,
            "-m",
            "metastable",
            "explore",
            str(self.folder),
            "--port",
            str(self.port),
            "--no-show",
        ]
        self.process = subprocess.Popen(
            [*command, *more], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.wait()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def wait(self, patience=180):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            assert self.process.poll() is None, self.process.stdout.read()
            try:
                urllib.request.urlopen(f"{self.url}/assets/lab.css", timeout=5)
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.3)
        raise AssertionError("the explorer did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def get(self, path, **headers):
        """Status and body."""
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
