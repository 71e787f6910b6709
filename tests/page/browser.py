"""Chromium without a screen: what a page looks like, and what became of its document."""
import shutil
import subprocess
import tempfile

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars"]


def chromium():
    return shutil.which("chromium")  # None: there is none


def _run(*words):
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run([chromium(), *FLAGS, f"--user-data-dir={profile}", *words], capture_output=True, text=True, timeout=120)
        return done.stdout, done.stderr


def shoot(url, file, width=1280, height=1800, seconds=9, dark=False):
    """A picture after so much of the page's own time."""
    _run(f"--window-size={width},{height}", f"--virtual-time-budget={int(seconds * 1000)}", f"--screenshot={file}",
         *(["--blink-settings=preferredColorScheme=0", "--force-dark-mode"] if dark else []), url)


def document(url, seconds=9):
    """The document as it is after that, and what the console said."""
    return _run(f"--virtual-time-budget={int(seconds * 1000)}", "--enable-logging=stderr", "--dump-dom", url)
